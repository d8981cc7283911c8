"""The interface between fine-tuning and its tasks: Setup and Task."""

import abc
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import heads, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.model_folder import run_folder, run_info
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import start_model
from bert_tf.training import config as training_config
from bert_tf.training import estimator, objective

Results = dict[str, float | int]
# One array for each record, in order, as `Task.rows` makes them from outputs.
Rows = Iterable[np.ndarray]

Config = TypeVar("Config", bound=config_lib.FineTuningConfig)
Example = TypeVar("Example")
Data = TypeVar("Data")

# Names of a task's metrics and their names in the original's result files.
_EVAL_NAMES = {
  "example_loss": "eval_loss",
  "token_loss": "eval_loss",
  "accuracy": "eval_accuracy",
}


@dataclasses.dataclass(frozen=True)
class Setup(Generic[Config]):
  """The resolved settings of a run, with its folder and its model."""

  config: Config  # Resolved by fine_tuning.resolve.
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  folder: run_folder.RunFolder
  start: start_model.StartModel

  def saved_labels(self) -> run_info.LabelSpec | None:
    """Returns the labels in output_dir, else those of the model to start from.

    Returns None if output_dir has no labels and the run starts a new head, or
    the model to start from has no labels for this task.
    """
    if self.folder.labels or self.config.train.encoder_only:
      return self.folder.labels
    run, start = self.start.head_run, self.start.adapter or self.start.path
    spec = run.label_spec if run and run.task == self.config.task else None
    if spec:
      logging.info("The labels are those of %s.", start)
    return spec


class SplitFile(NamedTuple):
  """The file of a split, and the flag that names the file or its folder."""

  path: str | None  # None if neither the task nor the user names a file.
  flag: str


class Task(abc.ABC, Generic[Example, Data]):
  """The part of fine-tuning that differs from task to task.

  `Data` is the type of a prepared split, from which records are written.

  Attributes:
    model: the class of the task's model.
    bert_config: the sizes of the model.
    noun: plural of the inputs that `num_inputs` counts, for messages.
    predicted_split: the split that do_predict predicts, "test" or "dev".
    first_results: names of the results at the top of result files.
    has_labels: whether the model has a fixed set of labels.
  """

  model: ClassVar[type[heads.HeadModel]]
  bert_config: modeling.BertConfig
  noun: str = "training examples"
  predicted_split: ClassVar[str] = "test"
  first_results: ClassVar[tuple[str, ...]] = ()
  has_labels: ClassVar[bool] = False

  @property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The model's labels; None if they are not known yet or do not exist."""
    return None

  @abc.abstractmethod
  def file(self, split: str) -> SplitFile:
    """Returns the file of a split, "train", "dev" or "test"."""

  @abc.abstractmethod
  def read(self, split: str, path: str) -> list[Example]:
    """Reads a split. If label_spec is None, any label is valid."""

  def set_labels(self, train: Sequence[Example], source: str) -> None:
    """Sets label_spec to the labels of the training examples.

    Args:
      train: the training examples.
      source: the origin of the examples, for messages.
    """

  @abc.abstractmethod
  def prepare(self, split: str, examples: Sequence[Example]) -> Data:
    """Prepares a split for `write_records`. The labels must be known."""

  @abc.abstractmethod
  def num_inputs(self, data: Data) -> int:
    """Returns the number of inputs in an epoch, for the number of steps."""

  @abc.abstractmethod
  def write_records(
    self, split: str, path: str, data: Data
  ) -> input_pipeline.RecordFiles:
    """Writes the records of a split; may reuse those of an earlier run."""

  @abc.abstractmethod
  def batches(self, split: str) -> batches_lib.Batches:
    """Returns the builder of batches from the records of a split."""

  @abc.abstractmethod
  def objective(self) -> objective.Objective:
    """Returns the losses and metrics of the task's model."""

  def build_estimator(
    self, train: training_config.TrainConfig
  ) -> estimator.Estimator:
    """Returns the Estimator of the task's model."""
    num_labels = self.label_spec.num_outputs if self.label_spec else 0
    return estimator.Estimator(
      lambda: heads.build(self.model, self.bert_config, num_labels),
      self.objective(),
      train,
    )

  @abc.abstractmethod
  def result_names(self) -> tuple[str, ...]:
    """Returns the names of results. The first is the default best_metric."""

  def rows(self, outputs: Any) -> Rows:
    """Converts a batch of outputs to an array for each record."""
    return outputs

  def scores(self, data: Data, rows: Sequence[np.ndarray]) -> Results:
    """Returns results of a split that need all its rows, such as F1."""
    return {}

  def evaluate(
    self, runner: estimator.Estimator, batches: tf.data.Dataset, data: Data
  ) -> tuple[Results, list[np.ndarray]]:
    """Evaluates the current weights; returns the results and the rows."""
    rows: list[np.ndarray] = []
    means = runner.evaluate(
      batches,
      on_outputs=lambda outputs, _: rows.extend(self.rows(np.asarray(outputs))),
      more_results=lambda: self.scores(data, rows),
    )
    return {_EVAL_NAMES.get(n, n): value for n, value in means.items()}, rows

  def write_evaluation(
    self, output_dir: str, data: Data, rows: Sequence[np.ndarray]
  ) -> None:
    """Writes files of an evaluation in addition to eval_results.txt."""

  def near_chance(self, data: Data, accuracy: float) -> float | None:
    """Returns the accuracy of the most frequent label if a model's is close."""
    return None

  @abc.abstractmethod
  def write_predictions(
    self, output_dir: str, data: Data, rows: Rows
  ) -> Results:
    """Writes the predictions; returns their scores, if there are any."""

  def run_info(self) -> dict[str, Any]:
    """Returns the task's own fields of run.json."""
    return {}

  def describe_labels(self, examples: Sequence[Example]) -> str:
    """Returns the labels of a split with their counts, for the log."""
    return "no labels"

  def describe_cut(self) -> str:
    """Returns the log's phrase on examples that are too long, such as "cut"."""
    return "cut"

  def inputs_and_answer(self, example: Example) -> tuple[dict[str, Any], Any]:
    """Returns an example as inputs of the served model, and its answer.

    Returns:
      The texts by the names of the model's inputs; {} if a served model cannot
      take the example as text. The answer as JSON; None if it is not known.
    """
    return {}, None
