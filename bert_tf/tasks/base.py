"""What fine-tuning asks of a task: files, records, model, scores."""

import abc
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from bert_tf import heads, modeling, tokenization
from bert_tf.data import input_pipeline
from bert_tf.model_folder import run_folder, run_info
from bert_tf.tasks import batches as batches_lib
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import start_model
from bert_tf.training import config as training_config
from bert_tf.training import estimator

Results = dict[str, float | int]
# A row of the model's outputs for each record, in order.
Rows = Iterable[np.ndarray]

Config = TypeVar("Config", bound=config_lib.FineTuningConfig)
Example = TypeVar("Example")
Data = TypeVar("Data")

# The names that the original gave to the means over examples.
_EVAL_NAMES = {
  "example_loss": "eval_loss",
  "token_loss": "eval_loss",
  "accuracy": "eval_accuracy",
}


@dataclasses.dataclass(frozen=True)
class Setup(Generic[Config]):
  """A run that has been checked: its settings, its folder and its model."""

  config: Config  # Resolved.
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  folder: run_folder.RunFolder
  start: start_model.StartModel

  def saved_labels(
    self, starts_head: bool = False
  ) -> run_info.LabelSpec | None:
    """Returns the labels in output_dir, else of the model to start from.

    Args:
      starts_head: whether no head comes from the model to start from.

    Returns:
      The labels with their origin; None if they are not known, or that model is
      of another task.
    """
    config, path = self.config, self.folder.path
    saved = self.folder.labels
    name = f"the run in {path}"
    remedy = f"choose another `output_dir` than {path}"
    if not saved:
      if starts_head or config.train.encoder_only:
        return None
      run = self.start.head_run
      saved = run.label_spec if run and run.task == config.task else None
      if not saved:
        return None
      name = f"the model {self.start.head_path}"
      remedy = "set `encoder_only` for a new head with the labels of the data"
    if not config.do_train:
      remedy = "correct the label, or use a model that was trained on it"
    origin = run_info.LabelOrigin(name, remedy)
    return dataclasses.replace(saved, origin=origin)


class SplitFile(NamedTuple):
  """The file of a split and the flag that names it or its folder."""

  path: str | None
  flag: str


class Task(abc.ABC, Generic[Example, Data]):
  """The part of fine-tuning that differs from task to task.

  Data holds the examples of a split with all that records are made of.

  Attributes:
    model: the task's model.
    noun: what training steps are counted in, in the plural.
    starts_from_checkpoint: whether the model can start from init_checkpoint.
    predicted_split: the split that is predicted.
    first_results: names that go before others in files of results.
    has_labels: whether the model has labels, the same in all inputs.
  """

  model: ClassVar[type[heads.HeadModel]]
  noun: str = "training examples"
  starts_from_checkpoint: bool = True
  predicted_split: ClassVar[str] = "test"
  first_results: ClassVar[tuple[str, ...]] = ()
  has_labels: ClassVar[bool] = False

  @property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The model's labels, None if there are none or not known yet."""
    return None

  @abc.abstractmethod
  def file(self, split: str) -> SplitFile:
    """Returns the file of "train", "dev" or "test"."""

  @abc.abstractmethod
  def read(self, split: str, path: str) -> list[Example]:
    """Reads a split; any label is accepted while the labels are unknown."""

  def set_labels(self, train: Sequence[Example], source: str) -> None:
    """Sets label_spec to the labels of the training examples.

    Args:
      train: the training examples.
      source: where they come from, for messages.
    """

  @abc.abstractmethod
  def prepare(self, split: str, examples: Sequence[Example]) -> Data:
    """Returns the data to make records of, once the labels are known."""

  @abc.abstractmethod
  def num_inputs(self, data: Data) -> int:
    """Returns the number of inputs in one pass, which training steps follow."""

  @abc.abstractmethod
  def write_records(
    self, split: str, path: str, data: Data
  ) -> input_pipeline.RecordFiles:
    """Writes the records of a split, unless they are there already."""

  @abc.abstractmethod
  def batches(self, split: str) -> batches_lib.Batches:
    """Returns how the records of a split become batches."""

  @abc.abstractmethod
  def build_estimator(
    self, train: training_config.TrainConfig
  ) -> estimator.Estimator:
    """Returns the Estimator of the task's model."""

  @abc.abstractmethod
  def result_names(self) -> tuple[str, ...]:
    """Returns the names of results, the one that decides on the best first."""

  def rows(self, outputs: Any) -> Rows:
    """Returns a row for each record in a batch of outputs."""
    return outputs

  def scores(self, data: Data, rows: Sequence[np.ndarray]) -> Results:
    """Returns results that need all predictions, such as F1."""
    return {}

  def evaluate(
    self, runner: estimator.Estimator, batches: tf.data.Dataset, data: Data
  ) -> tuple[Results, list[np.ndarray]]:
    """Returns the results of a split and the rows they were computed from."""
    rows: list[np.ndarray] = []
    found = runner.evaluate(
      batches,
      on_outputs=lambda outputs, _: rows.extend(self.rows(np.asarray(outputs))),
      more_results=lambda: self.scores(data, rows),
    )
    return {_EVAL_NAMES.get(n, n): value for n, value in found.items()}, rows

  def write_evaluation(
    self, output_dir: str, data: Data, rows: Sequence[np.ndarray]
  ) -> None:
    """Writes the files of an evaluation besides eval_results.txt."""

  @abc.abstractmethod
  def write_predictions(
    self, output_dir: str, data: Data, rows: Rows
  ) -> Results:
    """Writes the predictions; returns their scores, if there are any."""

  def run_info(self) -> dict[str, Any]:
    """Returns the task's own fields of run.json."""
    return {}

  def describe_labels(self, examples: Sequence[Example]) -> str:
    """Returns the labels of a split and how often each occurs, for the log."""
    return "no labels"

  def describe_cut(self) -> str:
    """Returns what happens to examples that do not fit, for the log."""
    return "cut"

  def inputs_and_answer(self, example: Example) -> tuple[dict[str, Any], Any]:
    """Returns an example as the served model takes it, and what is right.

    The first is texts by the names of the model's inputs; {} where a served
    model has none that people could read. The second is JSON, None where it is
    not known.
    """
    return {}, None
