"""NER with a BiLSTM that is trained on stored word vectors."""

import dataclasses
import os
from collections.abc import Iterator

from bert_tf import losses
from bert_tf.data import input_pipeline, record_cache
from bert_tf.model_folder import fingerprint
from bert_tf.tasks import base, fine_tuning
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.ner import records
from bert_tf.tasks.ner import task as ner
from bert_tf.training import config as training_config
from bert_tf.training import estimator, objective
from research.features import config as config_lib
from research.features import model, vectors


def run(config: config_lib.FeaturesConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run.

  Raises:
    ValueError: also if init_checkpoint is missing or has too few layers.
  """
  if not config.train.init_checkpoint:
    raise ValueError(
      "features are computed by a trained BERT: set `init_checkpoint`."
    )
  train = dataclasses.replace(config.train, encoder_only=True)
  return fine_tuning.run(dataclasses.replace(config, train=train), make_task)


def make_task(
  setup: base.Setup[config_lib.FeaturesConfig],
) -> "FeaturesTask":
  """Returns the task of a run; raises ValueError if BERT has too few layers."""
  config = setup.config
  assert config.train.init_checkpoint
  vectors.check_layers(config.feature_layers, setup.bert_config)
  return FeaturesTask(
    # Its config is a NerConfig.
    **vars(ner.make_task(setup)),  # type: ignore[arg-type]
    layers=config.feature_layers,
    init_checkpoint=config.train.init_checkpoint,
    folder=config.feature_dir,
  )


@dataclasses.dataclass(eq=False, kw_only=True)
class FeaturesTask(ner.NerTask):
  """Labels the words of sentences by vectors that BERT computes once."""

  layers: str  # A name in config.FEATURE_LAYERS.
  init_checkpoint: str  # The checkpoint of the frozen BERT.
  folder: str | None  # Folder of the stored vectors; None for the records'.

  noun = "training sentences"

  def num_inputs(self, data: ner.Tagged) -> int:
    """Returns the number of sentences."""
    return len(data.sentences)

  def write_records(
    self, split: str, path: str, data: ner.Tagged
  ) -> input_pipeline.RecordFiles:
    """Writes the vectors of each sentence, unless they exist already."""
    windows = super().write_records(split, path, data)
    assert self.labels is not None
    batches = records.batches(self.max_seq_length, self.bert_config.vocab_size)
    records_dir, name = os.path.split(path)
    files = vectors.write_records(
      os.path.join(self.folder or records_dir, f"{self.layers}.{name}"),
      data.sentences,
      self.labels,
      vectors.word_vectors(
        self.bert_config,
        self.init_checkpoint,
        self.layers,
        batches.once(windows, vectors.BATCH_SIZE),
      ),
      {
        **record_cache.tokenizer_settings(self.tokenizer),
        "max_seq_length": self.max_seq_length,
        "document_context": self.document_context,
        "bert_config": self.bert_config.to_dict(),
        "init_checkpoint": fingerprint.hash_encoder(self.init_checkpoint),
        "feature_layers": self.layers,
      },
    )
    return dataclasses.replace(files, num_cut=windows.num_cut)

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns the builder of batches of vectors."""
    return vectors.batches(
      vectors.num_layers(self.layers, self.bert_config),
      self.bert_config.hidden_size,
    )

  def build_estimator(
    self, train: training_config.TrainConfig
  ) -> estimator.Estimator:
    """Returns the Estimator of the BiLSTM, of which BERT is no part."""
    assert self.labels is not None
    num_labels = len(self.labels)
    return estimator.Estimator(
      lambda: model.BiLstmModel(
        vectors.num_layers(self.layers, self.bert_config),
        self.bert_config.hidden_size,
        num_labels,
        self.layers.startswith("weighted_sum"),
      ),
      objective.Objective(
        losses.token_loss, losses.token_weights, losses.token_metrics
      ),
      dataclasses.replace(train, init_checkpoint=None, encoder_only=False),
    )

  def label_ids(self, data: ner.Tagged, rows: base.Rows) -> Iterator[int]:
    """Yields the predicted label id of each word; rows are int [W]."""
    for sentence, row in zip(data.sentences, rows):
      yield from row[: len(sentence.words)]
