"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import functools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.tasks import base, fine_tuning, label_map
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import (
  examples,
  glue,
  long_texts,
  metrics,
  records,
)
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.training import config as training_config
from bert_tf.training import estimator


def run(
  config: config_lib.ClassificationConfig,
  layout: examples.FileLayout | None = None,
) -> base.Results | None:
  """Trains, evaluates and predicts as asked; see fine_tuning.run.

  Args:
    config: settings of the run.
    layout: of the files, where the config does not describe them.
  """
  return fine_tuning.run(config, functools.partial(_make_task, layout=layout))


def file_layout(config: config_lib.ClassificationConfig) -> examples.FileLayout:
  """Returns the layout of the files that a config describes."""
  file_format = config.task_name.lower()
  if file_format not in config_lib.FILE_FORMATS:
    return glue.get_task(config.task_name, config.xnli_language)
  return examples.own_files(
    file_format,
    config.problem_type,
    config.text_a_column,
    config.text_b_column,
    config.label_column,
  )


def result_names(layout: examples.FileLayout) -> tuple[str, ...]:
  """Returns the names of the results, the task's own metrics first."""
  accuracy = () if layout.problem_type == "regression" else ("eval_accuracy",)
  return (*layout.metrics, *accuracy, "eval_loss", "loss")


def build_estimator(
  bert_config: modeling.BertConfig,
  spec: label_map.LabelSpec,
  train: training_config.TrainConfig,
) -> estimator.Estimator:
  """Returns the Estimator of a classifier.

  Args:
    bert_config: the model's sizes.
    spec: the model's labels.
    train: how to train.
  """
  kind = spec.problem_type
  return estimator.Estimator(
    lambda: heads.ClassifierModel(bert_config, spec.num_outputs),
    lambda logits, batch: losses.classifier_loss(logits, batch, kind),
    losses.classifier_weights,
    lambda logits, batch: losses.classifier_metrics(logits, batch, kind),
    train,
  )


def _make_task(
  config: config_lib.ClassificationConfig,
  bert_config: modeling.BertConfig,
  tokenizer: tokenization.FullTokenizer,
  layout: examples.FileLayout | None,
) -> "ClassificationTask":
  assert config.max_seq_length is not None and config.long_text is not None
  layout = layout or file_layout(config)
  if config.long_text != "truncate" and layout.is_pair:
    raise ValueError(
      f"long_text {config.long_text!r} is for single texts, but "
      f"{layout.name} has pairs, whose longer text is always cut; leave out "
      "--long_text."
    )
  saved = label_map.read(config.train.output_dir)
  return ClassificationTask(
    layout.with_labels(saved.labels) if saved else layout,
    config.data_dir,
    bert_config,
    tokenizer,
    config.max_seq_length,
    config.long_text,
    config.group_by_length,
    config.skip_bad_rows,
  )


class Texts(NamedTuple):
  """The examples of a split.

  Attributes:
    examples: the texts or pairs, B.
    num_windows: int [B], the records of each.
  """

  examples: Sequence[InputExample]
  num_windows: Sequence[int]


class ClassificationTask(base.Task[InputExample, Texts]):
  """Classification of texts or pairs.

  Args:
    layout: of the files.
    data_dir: folder of the files.
    bert_config: the model's sizes.
    tokenizer: of the model's vocabulary.
    max_seq_length: word pieces of a record.
    long_text: one of config.LONG_TEXT_MODES.
    group_by_length: whether training batches hold examples of like length.
    skip_bad_rows: whether to leave out bad rows of the train and dev files.
  """

  model = heads.ClassifierModel
  has_labels = True
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")

  def __init__(
    self,
    layout: examples.FileLayout,
    data_dir: str,
    bert_config: modeling.BertConfig,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    long_text: str = "truncate",
    group_by_length: bool = True,
    skip_bad_rows: bool = False,
  ) -> None:
    self._layout = layout
    self._data_dir = data_dir
    self._bert_config = bert_config
    self._tokenizer = tokenizer
    self._max_seq_length = max_seq_length
    self._long_text = long_text
    self._group_by_length = group_by_length
    self._skip_bad_rows = skip_bad_rows

  @property
  def label_spec(self) -> label_map.LabelSpec | None:
    """The labels, None until they are known."""
    return None if self._layout.labels is None else self._layout.label_spec()

  def file(self, split: str) -> base.SplitFile:
    """Returns a file below data_dir."""
    found = getattr(self._layout, split)
    if found is None:
      return base.SplitFile(None, "task_name")
    path = os.path.join(self._data_dir, found.file)
    return base.SplitFile(path, "data_dir")

  def read(self, split: str, path: str) -> list[InputExample]:
    """Reads the examples of a split."""
    # Predictions stand in the order of the test file, row for row.
    skip = self._skip_bad_rows and split != "test"
    found = getattr(self._layout, split)
    return examples.read_examples(self._data_dir, found, self._layout, skip)

  def set_labels(self, train: Sequence[InputExample]) -> None:
    """Sets the labels to those of the training examples."""
    labels = examples.infer_labels(train)
    needed = 2 if self._layout.problem_type == "classification" else 1
    if len(labels) < needed:
      raise ValueError(
        f"{self.file('train').path} has {len(labels)} labels "
        f"({', '.join(labels)}), at least {needed} are needed; is "
        "--label_column right?"
      )
    self._layout = self._layout.with_labels(labels)

  def prepare(self, split: str, examples: Sequence[InputExample]) -> Texts:
    """Returns the examples with the number of their windows."""
    num_windows = records.num_windows(
      examples, self._tokenizer, self._max_seq_length, self._long_text
    )
    return Texts(examples, num_windows)

  def num_inputs(self, data: Texts) -> int:
    """Returns the number of windows."""
    return sum(data.num_windows)

  def write_records(
    self, split: str, path: str, data: Texts
  ) -> input_pipeline.RecordFiles:
    """Writes a record for each window."""
    return records.write_records(
      path,
      data.examples,
      self._layout.label_spec(),
      self._tokenizer,
      self._max_seq_length,
      self._long_text,
    )

  def batches(self, split: str) -> batches_lib.Batches:
    """Returns how the records of a split become batches."""
    return records.batches(
      self._layout.label_spec(),
      self._max_seq_length,
      self._bert_config.vocab_size,
      self._group_by_length,
    )

  def build_estimator(
    self, train: training_config.TrainConfig
  ) -> estimator.Estimator:
    """Returns the Estimator of a classifier."""
    return build_estimator(self._bert_config, self._layout.label_spec(), train)

  def result_names(self) -> tuple[str, ...]:
    """Returns the names of the results."""
    return result_names(self._layout)

  def scores(self, data: Texts, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns the official metrics and, with windows, means over examples."""
    return metrics.scores(
      self._layout,
      records.label_ids(data.examples, self._layout.label_spec()),
      np.stack(rows),
      data.num_windows,
    )

  def write_predictions(
    self, output_dir: str, data: Texts, rows: base.Rows
  ) -> base.Results:
    """Writes test_results.tsv, predictions.jsonl and the file for GLUE."""
    logits = long_texts.pooled(np.stack(list(rows)), data.num_windows)
    problem_type = self._layout.problem_type
    probabilities = np.asarray(losses.probabilities(logits, problem_type))
    metrics.write_predictions(
      output_dir, self._layout, data.examples, probabilities
    )
    return {}

  def run_info(self) -> dict[str, Any]:
    """Returns labels and kind of input for run.json."""
    return {
      **self._layout.label_spec().run_info(),
      "is_pair": self._layout.is_pair,
      "long_text": self._long_text,
    }
