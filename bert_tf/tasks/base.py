"""The interface between fine-tuning and its tasks: Setup and Task."""

import abc
import collections
import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import heads, losses, modeling, tokenization
from bert_tf.data import input_pipeline, padding, record_cache, records
from bert_tf.files import errors, json_files
from bert_tf.formats import hugging_face
from bert_tf.model_folder import run_folder, run_info
from bert_tf.tasks import config as config_lib
from bert_tf.tasks import prediction, registry, start_model
from bert_tf.training import config as training_config
from bert_tf.training import estimator, objective, results

Results = dict[str, float | int]
# One array for each input, in order, as `Task.rows` makes them from outputs.
Rows = Iterable[np.ndarray]
# The records of each example, and whether it is too long.
Encoded = Iterator[tuple[Sequence[bytes], bool]]

Config = TypeVar("Config", bound=config_lib.FineTuningConfig)
Example = TypeVar("Example")

# Number of inputs of each split whose word pieces are logged.
NUM_LOGGED = 2

# Names of a task's metrics and their names in the original's result files.
_EVAL_NAMES = {
  "example_loss": "eval_loss",
  "token_loss": "eval_loss",
  "accuracy": "eval_accuracy",
}


@dataclasses.dataclass(frozen=True)
class Setup(Generic[Config]):
  """The resolved settings of a run, with its folder and its model."""

  config: Config  # Resolved by fine_tuning.load.
  bert_config: modeling.BertConfig
  tokenizer: tokenization.FullTokenizer
  folder: run_folder.RunFolder
  start: start_model.StartModel

  def saved_labels(self, known: Any = None) -> run_info.LabelSpec | None:
    """Returns the labels in output_dir, else those of the model to start from.

    None if there are none for this task, or the run starts a new head. `known`
    are the labels that the task itself prescribes, if any.
    """
    if self.folder.labels or self.config.train.encoder_only:
      return self.folder.labels
    run, start = self.start.head_run, self.start.adapter or self.start.path
    spec = run.label_spec if run and run.task == self.config.task else None
    # The training examples have the names that LABEL_0 and so on stand for.
    names = spec.labels if spec and self.config.do_train else ()
    if names and names == hugging_face.numbered_labels(len(names)):
      return None
    if spec and known in (None, spec.labels):
      logging.info("The labels come from %s.", start)
    hint = "; set `encoder_only` to start a new head"
    return spec and dataclasses.replace(spec, hint=hint)


class SplitFile(NamedTuple):
  """The file of a split, and the flag that names the file or its folder."""

  path: str | None  # None if neither the task nor the user names a file.
  flag: str


class Task(abc.ABC, Generic[Example]):
  """The part of fine-tuning that differs from task to task.

  Attributes:
    model: the class of the task's model.
    noun: plural of the inputs that `num_inputs` counts, for messages.
    predicted_split: the split that do_predict predicts, "test" or "dev".
    first_results: names of the results at the top of result files.
    label_features: names of the features that are as long as the input, such as
      labels of positions.
    record_settings: names of fields of run.json that records depend on besides
      the examples and the tokenizer. Equal records of an earlier run are kept;
      if it is None, records are always written anew.
    max_seq_length: F, the word pieces of an input.
    class_weights: the weight of each label in the loss; None for equal weights,
      and unless the run trains.
  """

  model: ClassVar[type[heads.HeadModel]]
  noun: ClassVar[str] = "training examples"
  predicted_split: ClassVar[str] = "test"
  first_results: ClassVar[tuple[str, ...]] = ()
  label_features: ClassVar[tuple[str, ...]] = ()
  record_settings: ClassVar[tuple[str, ...] | None] = None
  config: Any
  class_weights: tuple[float, ...] | None = None

  def __init__(self, setup: Setup[Any]) -> None:
    assert setup.config.max_seq_length is not None
    self.config = setup.config
    self.bert_config = setup.bert_config
    self.tokenizer = setup.tokenizer
    self.max_seq_length: int = setup.config.max_seq_length
    self.setup = setup

  @functools.cached_property
  def files(self) -> Mapping[str, SplitFile]:
    """The file of each split: by default train_file and so on in data_dir."""
    names = {split: f"{split}_file" for split in ("train", "dev", "test")}
    return {
      split: SplitFile(
        os.path.join(self.config.data_dir, getattr(self.config, name)), name
      )
      for split, name in names.items()
    }

  @property
  def has_labels(self) -> bool:
    """Whether the model has a fixed set of labels."""
    return registry.TASKS[self.config.task].label_defaults is not None

  @functools.cached_property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The model's labels; None if they are not known yet or do not exist."""
    return self.setup.saved_labels() if self.has_labels else None

  @property
  def result_names(self) -> tuple[str, ...]:
    """Names of the results. The first is the default best_metric."""
    return ("eval_accuracy", "eval_loss", "loss")

  @abc.abstractmethod
  def read(self, split: str, path: str) -> list[Example]:
    """Reads a split. If label_spec is None, any label is valid."""

  def set_labels(self, train: Sequence[Example], source: str) -> None:
    """Sets label_spec to the labels of the training examples from a source."""
    answers = [self.inputs_and_answer(example)[1] for example in train]
    names = sorted(set(prediction.labels_in(answers)))
    defaults = registry.TASKS[self.config.task].label_defaults
    assert defaults
    self.label_spec = run_info.LabelSpec(*defaults, tuple(names))

  def set_class_weights(self, train: Sequence[Example]) -> None:
    """Sets class_weights to those of the setting, else of the resumed run.

    "balanced" stands for n / (k * count), with n training labels, k of them
    different, as in scikit-learn. A label without an example gets 1.

    Raises:
      ValueError: if the setting does not give a positive number per label, or
        the model has no labels that exclude each other.
    """
    given = getattr(self.config, "class_weights", ())
    run, spec = self.setup.folder.info, self.label_spec
    if not given:
      self.class_weights = run.class_weights if run else None
      return
    classes = (run_info.CLASSIFICATION, run_info.WORDS)
    labels = spec.labels if spec and spec.problem_type in classes else ()
    weights: list[float] = []
    if "balanced" in given:
      answers = [self.inputs_and_answer(example)[1] for example in train]
      counts = collections.Counter(prediction.labels_in(answers))
      known = [counts[label] for label in labels]
      num_present = sum(map(bool, known))
      weights = [sum(known) / (num_present * n) if n else 1.0 for n in known]
    else:
      with contextlib.suppress(ValueError):
        weights = [float(number) for number in given]
    is_valid = all(0 < weight < np.inf for weight in weights)
    if not labels or len(weights) != len(labels) or not is_valid:
      raise ValueError(
        f"class_weights {','.join(map(str, given))} does not fit the classes "
        f"{errors.join_names(labels) or '(there are none)'}. Give `balanced` "
        "or a positive number for each."
      )
    self.class_weights = tuple(weights)
    logging.info("The loss weighs labels by %s.", dict(zip(labels, weights)))

  def num_inputs(self, data: Sequence[Example]) -> int:
    """Returns the number of inputs in an epoch, for the number of steps."""
    return len(data)

  def encode(self, split: str, data: Sequence[Example]) -> Encoded:
    """Yields the records of each example, and whether it is too long.

    A record is a serialized `tf.train.Example` with the features of `spec`. By
    default, each example has one, with all its inputs and its label_values.
    """
    for example, prepared in zip(data, self.prepared(data)):
      labels = self.label_values(example, prepared)
      yield [self.record(prepared.inputs, labels)], prepared.is_cut

  def record(
    self,
    inputs: Sequence[prediction.ModelInput],
    ints: Mapping[str, Sequence[int]],
    floats: Mapping[str, Sequence[float]] | None = None,
  ) -> bytes:
    """Returns a record of padded inputs, one after the other, and labels.

    Raises ValueError if the model has too few segments, as for a pair.
    """
    num_segments = 1 + max(max(each.segment_ids) for each in inputs)
    config_file = self.config.bert_config_file
    self.bert_config.check_segments(num_segments, config_file)
    features = dict(ints)
    for name, rows in zip(prediction.ModelInput._fields[:3], zip(*inputs)):
      padded = ([*row, *[0] * (self.max_seq_length - len(row))] for row in rows)
      features[name] = [*itertools.chain.from_iterable(padded)]
    return records.encode_example(features, floats or {})

  def label_values(
    self, example: Example, prepared: prediction.Prepared
  ) -> Mapping[str, Sequence[int]]:
    """Returns the features of an example's record besides its inputs."""
    return {}

  @abc.abstractmethod
  def spec(self, split: str) -> input_pipeline.Spec:
    """Returns the features of a record: names, shapes, dtypes."""

  def made_of(self, data: Sequence[Example]) -> dict[str, Any]:
    """Returns what the records of a split depend on, as JSON values."""
    examples = [self.inputs_and_answer(example) for example in data]
    info = self.run_info()
    return {
      "examples": record_cache.content_hash(examples),
      "max_seq_length": self.max_seq_length,
      **{name: info[name] for name in self.record_settings or ()},
      **record_cache.tokenizer_settings(self.tokenizer),
    }

  @functools.cached_property
  def answerer(self) -> prediction.Answerer:
    """Prepares texts like those of a request to the trained model."""
    info = run_info.RunInfo(
      task=self.model.task,
      max_seq_length=self.max_seq_length,
      **self.run_info(),
    )
    answerer = registry.load(registry.TASKS[self.config.task].answerer)
    return answerer(self.tokenizer, info)

  def prepared(
    self, examples: Sequence[Example]
  ) -> Iterator[prediction.Prepared]:
    """Yields the model's inputs for each example; logs the first ones."""
    for index, example in enumerate(examples):
      texts, answer = self.inputs_and_answer(example)
      prepared = self.answerer.prepare(texts)
      for model_input in prepared.inputs if index < NUM_LOGGED else ():
        pieces = self.tokenizer.convert_ids_to_tokens(model_input.input_ids)
        arrow = "" if answer is None else f" -> {answer}"
        logging.info("%s%s", " ".join(pieces), arrow)
      yield prepared

  def write_records(
    self, split: str, path: str, data: Sequence[Example]
  ) -> input_pipeline.RecordFiles:
    """Writes the records of a split; may reuse those of an earlier run."""

    def write_all(writer: records.RecordWriter) -> int:
      num_cut = 0
      for encoded, is_cut in self.encode(split, data):
        num_cut += is_cut
        for record in encoded:
          writer.write(record)
      return num_cut

    if self.record_settings is not None:
      return record_cache.write(path, self.made_of(data), write_all)
    with records.open_records([path]) as writer:
      num_cut = write_all(writer)
    return input_pipeline.RecordFiles((path,), writer.num_written, num_cut)

  def finish(
    self, batches: tf.data.Dataset, has_few_widths: bool = False
  ) -> tf.data.Dataset:
    """Makes the model's input of batches: cuts them to their longest input.

    has_few_widths is set if XLA compiles a program for each width.
    """
    return padding.cut_padding(
      batches, self.max_seq_length, self.label_features, has_few_widths
    )

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

  def rows(self, outputs: Any, features: losses.Features) -> Rows:
    """Converts a batch of outputs to an array for each of the model's inputs.

    A record of several inputs, such as choices, gives each an array [1, ...].
    """
    if len(features["input_ids"].shape) == 3:
      return outputs.reshape(-1, 1, *outputs.shape[2:])
    return outputs

  def scores(
    self, data: Sequence[Example], rows: Sequence[np.ndarray]
  ) -> Results:
    """Returns results of a split that need all its rows, such as F1."""
    return {}

  def evaluate(
    self,
    runner: estimator.Estimator,
    batches: tf.data.Dataset,
    data: Sequence[Example],
  ) -> tuple[Results, list[np.ndarray]]:
    """Evaluates the current weights; returns the results and the rows."""
    rows: list[np.ndarray] = []
    means = runner.evaluate(
      batches,
      on_outputs=lambda outputs, features: rows.extend(
        self.rows(np.asarray(outputs), features)
      ),
      more_results=lambda: self.scores(data, rows),
    )
    return {_EVAL_NAMES.get(n, n): value for n, value in means.items()}, rows

  def write_evaluation(
    self, output_dir: str, data: Sequence[Example], rows: Sequence[np.ndarray]
  ) -> None:
    """Writes files of an evaluation in addition to eval_results.txt."""

  def near_chance(
    self, data: Sequence[Example], accuracy: float
  ) -> float | None:
    """Returns the accuracy of the most frequent label if a model's is close."""
    return None

  def answers(
    self, data: Sequence[Example], rows: Rows
  ) -> Iterator[dict[str, Any]]:
    """Yields the answer for each example, as a served model gives it."""
    rows = iter(rows)
    for example in data:
      prepared = self.answerer.prepare(self.inputs_and_answer(example)[0])
      logits = itertools.islice(rows, len(prepared.inputs))
      yield self.answerer.answer(prepared, [{"logits": row} for row in logits])

  def write_predictions(
    self, output_dir: str, data: Sequence[Example], rows: Rows
  ) -> Results:
    """Writes the predictions; returns their scores, if there are any.

    By default, predictions.jsonl gets the texts and the answer of each example.
    """
    texts = (self.inputs_and_answer(example)[0] for example in data)
    pairs = zip(texts, self.answers(data, rows))
    lines = (json_files.encode(text | answer) for text, answer in pairs)
    results.write_lines(os.path.join(output_dir, "predictions.jsonl"), lines)
    return {}

  def run_info(self) -> dict[str, Any]:
    """Returns the task's own fields of run.json."""
    fields = self.label_spec.run_fields() if self.label_spec else {}
    return fields | {"class_weights": self.class_weights}

  def describe_labels(self, examples: Sequence[Example]) -> str:
    """Returns the labels of a split with their counts, for the log."""
    answers = [self.inputs_and_answer(example)[1] for example in examples]
    answers = [answer for answer in answers if answer is not None]
    if not answers:
      return "no labels"
    if all(isinstance(answer, float) for answer in answers):
      return f"labels from {min(answers):g} to {max(answers):g}"
    counts = dict.fromkeys(self.label_spec.labels if self.label_spec else (), 0)
    counts |= sorted(collections.Counter(prediction.labels_in(answers)).items())
    parts = errors.join_names([f"{name} {n}" for name, n in counts.items()])
    return f"labels: {parts}"

  def inputs_and_answer(self, example: Example) -> tuple[dict[str, Any], Any]:
    """Returns an example as inputs of the served model, and its answer.

    Returns:
      The texts by the names of the model's inputs; {} if a served model cannot
      take the example as text. The answer as JSON; None if it is not known.
    """
    return {}, None
