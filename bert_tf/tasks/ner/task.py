"""Named entity recognition: a tag for every word (Devlin et al. 2019, 5.3)."""

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.files import paths
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, fine_tuning, splits
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.ner import config as config_lib
from bert_tf.tasks.ner import examples, metrics, records
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.ner.records import Window
from bert_tf.training import objective, results


def run(config: config_lib.NerConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run.

  The scores of a test file with tags are returned as test_*.

  Raises:
    ImportError: without seqeval, if there is something to score.
  """
  return fine_tuning.run(config, make_task)


def make_task(
  setup: base.Setup[config_lib.NerConfig],
) -> "NerTask":
  """Returns the task of a run."""
  config = setup.config
  assert config.max_seq_length is not None
  assert config.document_context is not None
  saved = setup.saved_labels()
  names = ("train", "dev", "test")
  files = {name: getattr(config, f"{name}_file") for name in names}
  return NerTask(
    {n: os.path.join(config.data_dir, file) for n, file in files.items()},
    examples.FileFormat(
      config.word_column, config.tag_column, config.tag_scheme
    ),
    setup.bert_config,
    setup.tokenizer,
    config.max_seq_length,
    config.document_context,
    saved.labels if saved else None,
  )


class Tagged(NamedTuple):
  """The sentences of a file and their windows."""

  sentences: Sequence[Sentence]  # In the order of the file.
  windows: Sequence[Window]  # The windows that label their words, in order.


@dataclasses.dataclass(eq=False)
class NerTask(base.Task[Sentence, Tagged]):
  """Labels the words of sentences."""

  files: dict[str, str]  # The path of each split.
  file_format: examples.FileFormat
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  max_seq_length: int  # Word pieces of a window.
  document_context: bool  # Whether to fill windows with nearby sentences.
  labels: tuple[str, ...] | None  # None until they are known.

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

  @property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The labels, None until they are known."""
    if self.labels is None:
      return None
    return run_info.LabelSpec("ner", run_info.WORDS, self.labels)

  def file(self, split: str) -> base.SplitFile:
    """Returns the file of a split."""
    return base.SplitFile(self.files[split], f"{split}_file")

  def read(self, split: str, path: str) -> list[Sentence]:
    """Reads the sentences of a file."""
    sentences = examples.read_sentences(path, self.file_format)
    if sentences[0].tags is None:
      if split != "test":
        raise ValueError(
          f"{path} has no column of tags next to the words; only the test file "
          "may lack tags."
        )
    elif split != "train":
      metrics.import_seqeval()  # Fails here, not after hours of training.
    return sentences

  def set_labels(self, train: Sequence[Sentence], source: str) -> None:
    """Sets the labels to O, and B- and I- of each type in the sentences.

    Raises ValueError if every tag is O.
    """
    labels = examples.infer_labels(train)
    if len(labels) < 2:
      raise ValueError(f"{source} has no entity, every tag is O.")
    self.labels = labels

  def prepare(self, split: str, sentences: Sequence[Sentence]) -> Tagged:
    """Returns the sentences with the windows that label their words."""
    path, spec = self.files[split], self.label_spec
    assert spec
    examples.check_labels(path, sentences, spec)
    windower = records.SentenceWindower(
      self.tokenizer, self.max_seq_length, self.document_context
    )
    return Tagged(sentences, windower.windows(path, sentences))

  def num_inputs(self, data: Tagged) -> int:
    """Returns the number of windows."""
    return len(data.windows)

  def write_records(
    self, split: str, path: str, data: Tagged
  ) -> input_pipeline.RecordFiles:
    """Writes a record for each window."""
    files = records.write_records(
      path, data.windows, self._labels, self.max_seq_length
    )
    num_cut = records.num_split(data.sentences, data.windows)
    return dataclasses.replace(files, num_cut=num_cut)

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns the builder of batches for a split."""
    return records.batches(self.max_seq_length, self.bert_config.vocab_size)

  def objective(self) -> objective.Objective:
    """Returns the loss and the accuracy of the labelled positions."""
    return objective.Objective(
      losses.token_loss, losses.token_weights, losses.token_metrics
    )

  def result_names(self) -> tuple[str, ...]:
    """Returns the names of results. The first is the default best_metric."""
    scores = metrics.result_names(self._labels)
    return (*scores, "eval_accuracy", "eval_loss", "loss")

  def rows(self, outputs: np.ndarray) -> base.Rows:
    """Returns the id of the most probable label of each position."""
    return outputs.argmax(axis=-1)

  def scores(self, data: Tagged, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns precision, recall and F1 of the entities."""
    tags = self._tags(data, rows)
    return dict(metrics.scores(data.sentences, tags, self._labels))

  def write_evaluation(
    self, output_dir: str, data: Tagged, rows: Sequence[np.ndarray]
  ) -> None:
    """Writes the words, tags and predicted tags to eval_predictions.txt."""
    path = os.path.join(output_dir, "eval_predictions.txt")
    metrics.write_predictions(path, data.sentences, self._tags(data, rows))

  def write_predictions(
    self, output_dir: str, data: Tagged, rows: base.Rows
  ) -> base.Results:
    """Writes test_predictions.txt and, if tags are known, test_results.txt.

    If tags are not known, removes the test_results.txt of earlier predictions.
    """
    tags = self._tags(data, rows)
    path = os.path.join(output_dir, "test_predictions.txt")
    metrics.write_predictions(path, data.sentences, tags)
    results_file = os.path.join(output_dir, "test_results.txt")
    if data.sentences[0].tags is None:
      paths.remove(results_file)  # The scores of earlier predictions.
      return {}
    scores = metrics.scores(data.sentences, tags, self._labels)
    scores["accuracy"] = metrics.accuracy(data.sentences, tags)
    results.write_results(results_file, scores, first=self.first_results)
    return {f"test_{name}": value for name, value in scores.items()}

  def run_info(self) -> dict[str, Any]:
    """Returns the labels and the settings of the inputs for run.json."""
    assert self.label_spec is not None
    return {
      **self.label_spec.run_fields(),
      "document_context": self.document_context,
    }

  def describe_labels(self, examples: Sequence[Sentence]) -> str:
    """Returns the origin of the tags and the count of each."""
    if examples[0].tags is None:
      return "no tags"
    assert self.label_spec is not None
    tags = itertools.chain.from_iterable(s.known_tags for s in examples)
    return splits.describe_labels(self.label_spec, tags)

  def describe_cut(self) -> str:
    """Returns the log's phrase on long sentences."""
    return f"read in several windows of max_seq_length {self.max_seq_length}"

  def inputs_and_answer(self, example: Sentence) -> tuple[dict[str, Any], Any]:
    """Returns the words with spaces between them, and their tags.

    Served models split texts at spaces, so words cannot contain spaces.
    """
    if any(len(word.split()) != 1 for word in example.words):
      return {}, None
    return {"text": " ".join(example.words)}, example.tags

  def label_ids(self, data: Tagged, rows: base.Rows) -> Iterator[int]:
    """Yields the predicted label id of each word; rows are int [F]."""
    for window, row in zip(data.windows, rows):
      yield from row[list(window.first_pieces)]

  @property
  def _labels(self) -> tuple[str, ...]:
    assert self.labels is not None
    return self.labels

  def _tags(self, data: Tagged, rows: base.Rows) -> list[list[str]]:
    """Returns each sentence's predicted tags."""
    tags = (self._labels[i] for i in self.label_ids(data, rows))
    return [[next(tags) for _ in s.words] for s in data.sentences]
