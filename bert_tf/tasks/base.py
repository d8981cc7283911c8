"""A task: how rows become inputs and targets, and outputs become answers.

A row is a dict by field, whether it comes from a file, from `fit` or from a
request: its inputs, such as `text` and `text_b`, and if known its `label`.
Files, Python, HTTP, evaluations and prediction files all use the same Task.
"""

import abc
import collections
import dataclasses
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import keras
import numpy as np
from absl import logging
from keras import ops

from bert_tf import settings, task_registry, tokenization
from bert_tf.checkpoint import run_info
from bert_tf.data import packing
from bert_tf.files import json_files, messages
from bert_tf.model import heads, losses
from bert_tf.model.model_config import BertConfig
from bert_tf.model.tensor import Tensor
from bert_tf.tasks.config import TaskSettings
from bert_tf.tasks.rows import Answer, Results, Row, labels_in, with_empty_text
from bert_tf.tasks.setup import Setup
from bert_tf.training import objective, results

# Values of a record besides its inputs: integers, or float32 for numbers.
Features = Mapping[str, np.ndarray]
# The outputs of the model for one sequence, by name, without the batch.
Outputs = Mapping[str, np.ndarray]

SettingsT = TypeVar("SettingsT", bound=TaskSettings)
TaskT = TypeVar("TaskT", bound="Task[Any]")


class ModelInput(NamedTuple):
  """One sequence for the model, without padding; each field has F numbers."""

  input_ids: Sequence[int]
  input_mask: Sequence[int]
  segment_ids: Sequence[int]
  # Positions whose words a pre-trained model predicts.
  masked_lm_positions: Sequence[int] = ()


class Inputs(NamedTuple):
  """What the model reads for a row."""

  sequences: Sequence[ModelInput]  # A row may need none.
  state: Any = None  # What `postprocess` needs besides the outputs.
  # Whether the sequences are one record [C, F], as the choices of a question
  # are, or several [F], as the windows of a long text.
  is_one_record: bool = False
  is_cut: bool = False  # Whether the row exceeds one sequence.

  @property
  def num_records(self) -> int:
    """The number of records that hold the sequences."""
    return 1 if self.is_one_record else len(self.sequences)


class SplitFile(NamedTuple):
  """The file of a split, and the flag that names the file or its folder."""

  path: str | None  # None if neither the task nor the user names a file.
  flag: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(objective.Objective, abc.ABC, Generic[SettingsT]):
  """How rows become inputs and targets, and outputs become answers.

  A task never changes: what its rows tell, such as their labels, makes a new
  one. It is also the objective of a training; see training/objective.py.

  Args:
    tokenizer: the tokenizer of the model.
    settings: all settings of inputs and answers, none of them unknown.
    labels: the labels of the model; None if they are not known yet, or if the
      task has none.
    class_weights: the weight of each label in the loss of a training; None for
      equal weights.
    config: the settings of the task's command, such as its files; None if the
      model is opened for predictions.

  Attributes:
    name: the name of its TaskSpec.
    fields: names of a row's inputs; the first num_required are required.
    outputs: names of the model's outputs that `postprocess` reads.
    noun: plural of what an epoch counts, for log lines.
    predicted_split: the split that do_predict predicts, "test" or "dev".
    loss_name: the name of the loss among the metrics.
    loss_mask: the feature that is 1 at the elements that the loss counts, int
      [B] or [B, ...]; None if each record of a batch counts.
    position_features: names of the targets that are as long as the input.
    unread_features: names of the targets that records have for readers of
      2018's files only.
  """

  name: ClassVar[str]
  fields: ClassVar[tuple[str, ...]] = ("text",)
  num_required: ClassVar[int] = 1
  outputs: ClassVar[tuple[str, ...]] = ("logits",)
  noun: ClassVar[str] = "training examples"
  predicted_split: ClassVar[str] = "test"
  loss_name: ClassVar[str] = "example_loss"
  loss_mask: ClassVar[str | None] = None
  position_features: ClassVar[tuple[str, ...]] = ()
  unread_features: ClassVar[tuple[str, ...]] = ()

  tokenizer: tokenization.FullTokenizer
  settings: SettingsT
  labels: run_info.LabelSpec | None = None
  class_weights: tuple[float, ...] | None = None
  config: Any = None

  # What it is.

  @classmethod
  def create(cls: type[TaskT], setup: Setup[Any], **fields: Any) -> TaskT:
    """Returns the task of a run, with these fields.

    Without a field `labels`, the labels are those that are known before.
    """
    spec = task_registry.TASKS[cls.name]
    if spec.label_defaults and "labels" not in fields:
      fields["labels"] = setup.saved_labels()
    settings_class = task_registry.load(spec.settings)
    return cls(
      tokenizer=setup.tokenizer,
      settings=settings.extract(setup.config, settings_class),
      config=setup.config,
      **fields,
    )

  @property
  def spec(self) -> task_registry.TaskSpec:
    """What the rest of the package knows about the task."""
    return task_registry.TASKS[self.name]

  @property
  def model(self) -> type[heads.HeadModel]:
    """The class of the task's model."""
    return task_registry.load(self.spec.model)

  def build_model(self, config: BertConfig) -> keras.Model:
    """Returns the model, with random values."""
    num_labels = self.labels.num_outputs if self.labels else 0
    return heads.build_model(self.model, config, num_labels)

  @property
  def max_seq_length(self) -> int:
    """F, the maximum number of word pieces in a sequence."""
    assert self.settings.max_seq_length
    return self.settings.max_seq_length

  @property
  def width(self) -> int | None:
    """The length that sequences are padded to; None for a batch's longest."""
    return None

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the results. The first is the default best_metric."""
    return ("eval_accuracy", "eval_loss", "loss")

  @property
  def counts_windows(self) -> bool:
    """Whether an epoch counts the windows of rows, not the rows."""
    return False

  def variants(self) -> Mapping[str, "Task[SettingsT]"]:
    """Returns the task with other ways to read a text, by name."""
    return {}

  # Its files and labels.

  @property
  def files(self) -> Mapping[str, SplitFile]:
    """The file of each split: by default train_file and so on in data_dir."""
    files = {}
    for split in ("train", "dev", "test"):
      name = f"{split}_file"
      path = os.path.join(self.config.data_dir, getattr(self.config, name))
      files[split] = SplitFile(path, name)
    return files

  def read(self, split: str) -> Sequence[Row]:
    """Reads the rows of a split. If `labels` is None, any label is valid.

    Raises ValueError for a faulty file or row, with the file and the line.
    """
    raise NotImplementedError

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Returns a row with its label from Python; ValueError if it is none."""
    return {**row, "label": label}

  def infer(self: TaskT, rows: Sequence[Row], source: str) -> TaskT:
    """Returns the task with the labels of its training rows, if unknown.

    `source` is what the rows were read from, for messages.
    """
    if self.spec.label_defaults is None or self.labels is not None:
      return self
    return dataclasses.replace(self, labels=self.infer_labels(rows, source))

  def infer_labels(
    self, rows: Sequence[Row], source: str
  ) -> run_info.LabelSpec:
    """Returns the labels of training rows: by default all names, sorted.

    Names that are all whole numbers are sorted by value.
    """
    assert self.spec.label_defaults
    names = sorted({*labels_in([row.get("label") for row in rows])})
    if all(name.isdecimal() for name in names):
      names.sort(key=int)
    return run_info.LabelSpec(*self.spec.label_defaults, tuple(names))

  def describe_labels(self, rows: Sequence[Row]) -> str:
    """Returns the labels of a split with their counts, for the log."""
    known = [row["label"] for row in rows if row.get("label") is not None]
    if not known:
      return "no labels"
    if all(isinstance(label, float) for label in known):
      return f"labels from {min(known):g} to {max(known):g}"
    counts = dict.fromkeys(self.labels.labels if self.labels else (), 0)
    counts |= sorted(collections.Counter(labels_in(known)).items())
    parts = messages.join_names([f"{name} {n}" for name, n in counts.items()])
    return f"labels: {parts}"

  # From rows to inputs.

  def check(self, rows: Sequence[Row]) -> None:
    """Warns of rows whose answer means little; ValueError if none has one."""
    if empty := with_empty_text(rows):
      numbers = messages.join_names([*map(str, empty)], 5)
      logging.warning(f"These rows have an empty text: {numbers}.")

  @abc.abstractmethod
  def preprocess(self, rows: Iterable[Row]) -> Iterator[Inputs]:
    """Yields the inputs of each row, lazily and in order.

    The rows of a file come together, so a task may look at a row's neighbours.

    Raises:
      ValueError: if the model cannot read a row.
    """

  def tokenize(self, text: str) -> list[int]:
    """Returns the ids of the word pieces of a text."""
    return self.tokenizer.tokenize_to_ids(text)

  def pack(
    self, ids_a: Sequence[int], ids_b: Sequence[int] | None = None
  ) -> ModelInput:
    """Returns the sequence of a text or a pair, cut to max_seq_length."""
    cls_id, sep_id = self.tokenizer.convert_tokens_to_ids(
      [tokenization.CLS, tokenization.SEP]
    )
    ids, num_first = packing.assemble(
      ids_a, ids_b, cls_id, sep_id, self.max_seq_length
    )
    return model_input(ids, num_first)

  def is_cut(
    self, ids_a: Sequence[int], ids_b: Sequence[int] | None = None
  ) -> bool:
    """Returns whether `pack` drops some of the word pieces."""
    num_pieces = len(ids_a) + len(ids_b or ())
    return num_pieces > self.max_seq_length - (3 if ids_b else 2)

  # Training.

  def targets(self, row: Row, inputs: Inputs) -> Iterable[Features]:
    """Yields for each record of a row what it holds besides its inputs."""
    return itertools.repeat({}, inputs.num_records)

  def prepare_for_training(self, rows: Sequence[Row]) -> Sequence[Row]:
    """Returns the rows of training records, in their order."""
    return rows

  def compute_losses(
    self, outputs: Any, features: losses.Features
  ) -> tuple[Tensor, Tensor | None]:
    """Returns the loss of each element of a batch, and whether it is right.

    Both are float32, of the shape of the feature `loss_mask`. The second is 1
    or 0, or None for a task without an accuracy.
    """
    raise NotImplementedError(
      f"{type(self).__name__} does not say what its loss is. Define "
      "`compute_losses`, which returns the loss of each element of a batch."
    )

  def element_weights(
    self, features: losses.Features, class_weights: Sequence[float] | None
  ) -> Tensor:
    """Returns the weight of each element in the loss, float32.

    It is 1 where `loss_mask` is set, times the class weight of the label. The
    loss is sum(weight * loss) / sum(weight), as PyTorch's.
    """
    if self.loss_mask is None:
      return ops.ones(ops.shape(features["input_ids"])[:1])
    weights = ops.cast(features[self.loss_mask], "float32")
    if class_weights is not None:
      table = ops.convert_to_tensor(class_weights, "float32")
      of_labels = ops.take(table, features["label_ids"], axis=0)
      weights = weights * ops.reshape(of_labels, ops.shape(weights))
    return weights

  def weights(
    self, features: losses.Features, training: bool
  ) -> dict[str, Tensor]:
    """Returns the weight of the loss of a batch, by its name."""
    class_weights = self.class_weights if training else None
    weights = self.element_weights(features, class_weights)
    return {self.loss_name: ops.sum(weights)}

  def loss_sums(
    self, model: keras.Model, features: losses.Features, training: bool
  ) -> objective.BatchSums:
    """Returns the losses, metrics and outputs of features [B, ...]."""
    outputs = model(features, training=training)
    values, hits = self.compute_losses(outputs, features)

    def weigh(
      values: Tensor, class_weights: Sequence[float] | None = None
    ) -> tuple[Tensor, Tensor]:
      weights = self.element_weights(features, class_weights)
      weights = ops.reshape(weights, ops.shape(values))
      return ops.sum(values * weights), ops.sum(weights)

    class_weights = self.class_weights if training else None
    sums = {self.loss_name: weigh(values, class_weights)}
    metrics = {self.loss_name: weigh(values)} if self.has_loss else {}
    if hits is not None:
      metrics["accuracy"] = weigh(hits)
    return objective.BatchSums(sums, metrics, outputs)

  # From outputs to answers and scores.

  @abc.abstractmethod
  def postprocess(self, inputs: Inputs, outputs: Sequence[Outputs]) -> Answer:
    """Returns the answer of a row.

    Args:
      inputs: the row's, from `preprocess`.
      outputs: the model's outputs for each sequence. Those for positions may be
        longer than the sequence, since a batch is padded.
    """

  def name_results(self, means: Mapping[str, float]) -> Results:
    """Returns the results by their names in the original's files."""
    names = {self.loss_name: "eval_loss", "accuracy": "eval_accuracy"}
    return {names.get(name, name): value for name, value in means.items()}

  def score(self, rows: Sequence[Row], answers: Sequence[Answer]) -> Results:
    """Returns results of a split that need all its answers, such as F1."""
    return {}

  def write_evaluation(
    self, output_dir: str, rows: Sequence[Row], answers: Sequence[Answer]
  ) -> None:
    """Writes files of an evaluation in addition to eval_results.txt."""

  def write_predictions(
    self, output_dir: str, rows: Sequence[Row], answers: Iterable[Answer]
  ) -> Results:
    """Writes the predictions; returns their scores, if there are any.

    By default, predictions.jsonl gets the inputs and the answer of each row.
    """
    lines = (
      json_files.encode(self.inputs_of(row) | answer, default=np.ndarray.tolist)
      for row, answer in zip(rows, answers)
    )
    results.write_lines(os.path.join(output_dir, "predictions.jsonl"), lines)
    return {}

  def inputs_of(self, row: Row) -> Row:
    """Returns the fields of a row that a served model reads.

    They are {} if a served model cannot read the row.
    """
    if not row.keys() >= {*self.fields[: self.num_required]}:
      return {}
    return {name: row[name] for name in self.fields if name in row}


def answer_rows(
  task: Task[Any], rows: Sequence[Row], batches: Iterable[Any]
) -> Iterator[Answer]:
  """Yields the answers of rows, in order, for the outputs of their records.

  The outputs of a batch are an array, which gets the name `logits`, or a named
  tuple of arrays. A row is answered when the output of its last record has
  come.
  """

  def split_batches() -> Iterator[Outputs]:
    for outputs in batches:
      named = {"logits": outputs}
      if hasattr(outputs, "_asdict"):
        named = outputs._asdict()
      for values in zip(*named.values()):
        yield dict(zip(named, values))

  remaining = split_batches()
  for inputs in task.preprocess(rows):
    own = list(itertools.islice(remaining, inputs.num_records))
    if inputs.is_one_record:
      [record] = own
      own = [
        {name: values[i : i + 1] for name, values in record.items()}
        for i in range(len(inputs.sequences))
      ]
    yield task.postprocess(inputs, own)


def model_input(
  ids: Sequence[int], num_first: int, positions: Sequence[int] = ()
) -> ModelInput:
  """Returns a sequence whose first num_first ids are in segment 0."""
  segment_ids = [0] * num_first + [1] * (len(ids) - num_first)
  return ModelInput(ids, [1] * len(ids), segment_ids, positions)


def batch(
  sequences: Sequence[ModelInput], width: int | None = None
) -> dict[str, np.ndarray]:
  """Returns sequences as arrays by name, int32 [B, F].

  They are padded with 0 to `width`, or if it is None to the longest.
  `masked_lm_positions`, int32 [B, P], are left out if there are none.
  """
  arrays = {}
  for name, rows in zip(ModelInput._fields, zip(*sequences)):
    if name == "masked_lm_positions":
      if not any(rows):
        continue
      width = None
    array = np.zeros((len(rows), width or max(map(len, rows))), np.int32)
    for target, row in zip(array, rows):
      target[: len(row)] = row
    arrays[name] = array
  return arrays


def digits(values: np.ndarray) -> list[float]:
  """Returns float32 [N] as Python's floats that print with their digits."""
  return [float(str(value)) for value in values]


def probabilities(
  logits: np.ndarray, problem_type: str | None = None
) -> np.ndarray:
  """Returns `losses.probabilities`, float32 [..., C], of logits [..., C].

  NumPy takes a tenth of the time of TensorFlow for a single row.
  """
  logits = np.asarray(logits, np.float32)
  if problem_type == "regression":
    return logits
  if problem_type in ("multilabel", "ranking"):
    return np.exp(-np.logaddexp(np.float32(0), -logits))
  exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
  return exponentials / exponentials.sum(axis=-1, keepdims=True)
