"""Named entity recognition: a tag for every word (Devlin et al. 2019, 5.3)."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline, record_cache
from bert_tf.tasks import base, fine_tuning, label_map
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.ner import bilstm, examples, feature_based, metrics, records
from bert_tf.tasks.ner import config as config_lib
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.ner.records import Window
from bert_tf.training import config as training_config
from bert_tf.training import estimator, results


def run(config: config_lib.NerConfig) -> base.Results | None:
  """Trains, evaluates and predicts as asked; see fine_tuning.run.

  The scores of a test file with tags are returned as test_*.

  Raises:
    ImportError: without seqeval, if there is something to score.
  """
  return fine_tuning.run(config, _make_task)


def _make_task(
  config: config_lib.NerConfig,
  bert_config: modeling.BertConfig,
  tokenizer: tokenization.FullTokenizer,
) -> "NerTask":
  assert config.max_seq_length is not None
  assert config.document_context is not None
  output_dir, start = config.train.output_dir, config.train.init_checkpoint
  features = None
  if config.approach == "features":
    feature_based.check_layers(config.feature_layers, bert_config)
    if not start:
      raise ValueError(
        "features are computed by a trained BERT: set --init_checkpoint."
      )
    features = Features(
      config.feature_layers, start, config.feature_dir or output_dir
    )
  names = ("train", "dev", "test")
  files = {name: getattr(config, f"{name}_file") for name in names}
  return NerTask(
    {n: os.path.join(config.data_dir, file) for n, file in files.items()},
    examples.FileFormat(
      config.word_column, config.tag_column, config.tag_scheme
    ),
    bert_config,
    tokenizer,
    config.max_seq_length,
    config.document_context,
    features,
    label_map.read(output_dir),
  )


class Features(NamedTuple):
  """What a BiLSTM is trained on instead of fine-tuning BERT.

  Attributes:
    layers: a name in config.FEATURE_LAYERS.
    init_checkpoint: of the BERT that computes them.
    folder: where they are kept.
  """

  layers: str
  init_checkpoint: str
  folder: str


@dataclasses.dataclass(frozen=True)
class Tagged:
  """The sentences of a file.

  Attributes:
    sentences: in the order of the file.
    windows: that label their words, in the same order.
  """

  sentences: Sequence[Sentence]
  windows: Sequence[Window]


class NerTask(base.Task[Sentence, Tagged]):
  """Labelling the words of sentences.

  Args:
    files: the path of each split.
    file_format: columns and tag scheme of the files.
    bert_config: the model's sizes.
    tokenizer: of the model's vocabulary.
    max_seq_length: word pieces of a window.
    document_context: whether windows are filled with the sentences around.
    features: None to fine-tune BERT.
    saved: the labels of the run's folder, if there are any.
  """

  model = heads.TokenModel
  noun = "training windows"
  has_labels = True
  first_results = (
    *metrics.SCORES,
    "accuracy",
    "eval_accuracy",
    "eval_loss",
    "global_step",
    "loss",
  )

  def __init__(
    self,
    files: dict[str, str],
    file_format: examples.FileFormat,
    bert_config: modeling.BertConfig,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    document_context: bool,
    features: Features | None,
    saved: label_map.LabelSpec | None,
  ) -> None:
    self._files = files
    self._file_format = file_format
    self._bert_config = bert_config
    self._tokenizer = tokenizer
    self._max_seq_length = max_seq_length
    self._document_context = document_context
    self._features = features
    self.starts_from_checkpoint = features is None
    if features:
      self.noun = "training sentences"
    self._label_spec = self._spec(saved.labels) if saved else None

  @property
  def label_spec(self) -> label_map.LabelSpec | None:
    """The labels, None until they are known."""
    return self._label_spec

  def file(self, split: str) -> base.SplitFile:
    """Returns the file of a split."""
    return base.SplitFile(self._files[split], f"{split}_file")

  def read(self, split: str, path: str) -> list[Sentence]:
    """Reads the sentences of a file."""
    sentences = examples.read_sentences(path, self._file_format)
    if sentences[0].tags is None:
      if split != "test":
        raise ValueError(
          f"{path} has no column of tags beside that of the words; only the "
          "test file may go without."
        )
    elif split != "train":
      metrics.import_seqeval()  # Not missed after hours of training.
    return sentences

  def set_labels(self, train: Sequence[Sentence]) -> None:
    """Sets the labels to the tags of the training sentences."""
    labels = examples.infer_labels(train)
    if len(labels) < 2:
      raise ValueError(f"{self._files['train']} has no entity, every tag is O.")
    self._label_spec = self._spec(labels)

  def prepare(self, split: str, sentences: Sequence[Sentence]) -> Tagged:
    """Returns the sentences with the windows that label their words."""
    path = self._files[split]
    examples.check_labels(path, sentences, self._labels)
    windower = records.Windower(
      self._tokenizer, self._max_seq_length, self._document_context
    )
    return Tagged(sentences, windower.windows(path, sentences))

  def num_inputs(self, data: Tagged) -> int:
    """Returns the number of windows, or of sentences with features."""
    return len(data.sentences if self._features else data.windows)

  def write_records(
    self, split: str, path: str, data: Tagged
  ) -> input_pipeline.RecordFiles:
    """Writes a record for each window or, with features, each sentence."""
    windows = records.write_records(
      path, data.windows, self._labels, self._max_seq_length
    )
    if not self._features:
      return windows
    return self._write_vectors(os.path.basename(path), data, windows)

  def _write_vectors(
    self, name: str, data: Tagged, windows: input_pipeline.RecordFiles
  ) -> input_pipeline.RecordFiles:
    """Writes the vectors of the words, unless they are there already."""
    assert self._features
    layers, init_checkpoint, folder = self._features
    batches = records.batches(
      self._max_seq_length, self._bert_config.vocab_size
    )
    return feature_based.write_records(
      os.path.join(folder, f"{layers}.{name}"),
      data.sentences,
      self._labels,
      feature_based.word_vectors(
        self._bert_config,
        init_checkpoint,
        layers,
        batches.once(windows, feature_based.BATCH_SIZE),
      ),
      {
        **record_cache.tokenizer_settings(self._tokenizer),
        "max_seq_length": self._max_seq_length,
        "document_context": self._document_context,
        "bert_config": self._bert_config.to_dict(),
        "init_checkpoint": feature_based.checkpoint_hash(init_checkpoint),
        "feature_layers": layers,
      },
    )

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns how the records of a split become batches."""
    if not self._features:
      return records.batches(self._max_seq_length, self._bert_config.vocab_size)
    return feature_based.batches(
      feature_based.num_layers(self._features.layers, self._bert_config),
      self._bert_config.hidden_size,
    )

  def build_estimator(
    self, train: training_config.TrainConfig
  ) -> estimator.Estimator:
    """Returns the Estimator of TokenModel or, with features, of a BiLSTM."""
    if self._features:
      # Its BERT is no part of the model.
      train = dataclasses.replace(train, init_checkpoint=None)
    return estimator.Estimator(
      self._build_model,
      losses.token_loss,
      losses.token_weights,
      losses.token_metrics,
      train,
    )

  def _build_model(self) -> keras.Model:
    if not self._features:
      return heads.TokenModel(self._bert_config, len(self._labels))
    layers = self._features.layers
    return bilstm.BiLstmModel(
      feature_based.num_layers(layers, self._bert_config),
      self._bert_config.hidden_size,
      len(self._labels),
      feature_based.is_summed(layers),
    )

  def result_names(self) -> tuple[str, ...]:
    """Returns the names of the results."""
    scores = metrics.result_names(self._labels)
    return (*scores, "eval_accuracy", "eval_loss", "loss")

  def rows(self, outputs: np.ndarray) -> base.Rows:
    """Returns the likeliest label of each position."""
    return outputs.argmax(axis=-1)

  def scores(self, data: Tagged, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns precision, recall and F1 of the entities."""
    tags = self._tags(data, rows)
    return dict(metrics.scores(data.sentences, tags, self._labels))

  def write_evaluation(
    self, output_dir: str, data: Tagged, rows: Sequence[np.ndarray]
  ) -> None:
    """Writes eval_predictions.txt."""
    path = os.path.join(output_dir, "eval_predictions.txt")
    metrics.write_predictions(path, data.sentences, self._tags(data, rows))

  def write_predictions(
    self, output_dir: str, data: Tagged, rows: base.Rows
  ) -> base.Results:
    """Writes test_predictions.txt and, with tags, test_results.txt."""
    tags = self._tags(data, rows)
    path = os.path.join(output_dir, "test_predictions.txt")
    metrics.write_predictions(path, data.sentences, tags)
    if data.sentences[0].tags is None:
      return {}
    found = metrics.scores(data.sentences, tags, self._labels)
    found["accuracy"] = metrics.accuracy(data.sentences, tags)
    path = os.path.join(output_dir, "test_results.txt")
    results.write_results(path, found, first=self.first_results)
    return {f"test_{name}": value for name, value in found.items()}

  def run_info(self) -> dict[str, Any]:
    """Returns labels and kind of input for run.json."""
    return {
      **self._spec(self._labels).run_info(),
      "document_context": self._document_context,
      "feature_layers": self._features.layers if self._features else None,
    }

  @property
  def _labels(self) -> tuple[str, ...]:
    assert self._label_spec is not None
    return self._label_spec.labels

  def _spec(self, labels: Sequence[str]) -> label_map.LabelSpec:
    """Returns what label_map.json says of the run."""
    name = "ner"
    if self._features:
      name = f"ner on features {self._features.layers}"
    return label_map.LabelSpec(name, label_map.WORDS, tuple(labels))

  def _tags(self, data: Tagged, rows: base.Rows) -> list[list[str]]:
    """Returns the predicted tags of each sentence.

    Args:
      data: the file.
      rows: int [F] for each window or int [W] for each sentence.
    """
    tags = (self._labels[i] for i in self._label_ids(data, rows))
    return [[next(tags) for _ in s.words] for s in data.sentences]

  def _label_ids(self, data: Tagged, rows: base.Rows) -> Iterator[int]:
    """Yields the label of each word of a file."""
    if self._features:
      for sentence, row in zip(data.sentences, rows):
        yield from row[: len(sentence.words)]
    else:
      for window, row in zip(data.windows, rows):
        yield from row[list(window.first_pieces)]
