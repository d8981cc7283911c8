"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import collections
import dataclasses
import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import distribution, heads
from bert_tf.data import input_pipeline
from bert_tf.files import atomic, json_files, paths
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, fine_tuning, prediction
from bert_tf.tasks.classification import (
  answers,
  examples,
  glue,
  metrics,
  processors,
)
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.training import objective, results

Texts = Sequence[InputExample]


def run(config: config_lib.ClassificationConfig) -> base.Results | None:
  """Trains, evaluates and predicts as configured; see fine_tuning.run."""
  return fine_tuning.run(config, ClassificationTask)


def file_layout(config: config_lib.ClassificationConfig) -> examples.FileLayout:
  """Returns the layout of the files that a config describes.

  With a processor, the layout has only labels.
  """
  if config.processor:
    labels = processors.labels(processors.load(config.processor))
    name = config.task_name or config.processor.rpartition(":")[2]
    return examples.FileLayout(name, labels, (), {})
  data_dir = config.data_dir or ""
  if config.file_format is None:
    assert config.task_name is not None
    layout = glue.get_task(config.task_name, config.xnli_language)
    return glue.find_files(layout, data_dir)
  layout = examples.own_files(
    config.file_format,
    config.problem_type,
    config.text_a_column,
    config.text_b_column,
    config.label_column,
  )
  if config.data_file:
    rows = dataclasses.replace(
      layout.splits["train"], files=(config.data_file,), prefix="row"
    )
    return dataclasses.replace(layout, splits={"train": rows})
  if config.file_format == "parquet":
    return examples.with_parquet_files(layout, data_dir)
  return layout


class ClassificationTask(base.Task[InputExample]):
  """Classification of texts or pairs.

  The examples come from the files of a layout, from a processor, or from a
  single file, of which a part is held out as dev. The folder of the run keeps
  that split. A later command with the same folder uses it, whatever its flags
  are, so that it never evaluates on examples that the model was trained on.
  """

  config: config_lib.ClassificationConfig
  model = heads.ClassifierModel
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")
  record_settings = ("problem_type", "labels", "long_text")

  def __init__(
    self,
    setup: base.Setup[config_lib.ClassificationConfig],
    layout: examples.FileLayout | None = None,
  ) -> None:
    super().__init__(setup)
    config = self.config
    self.layout = layout = layout or file_layout(config)
    self.is_pair = layout.is_pair
    self._check_pairs()
    saved = setup.saved_labels(layout.labels)
    if saved and saved.problem_type == layout.problem_type:
      self.layout = dataclasses.replace(layout, labels_are_text=saved.are_text)
      if layout.labels is None:
        self.layout = dataclasses.replace(
          self.layout, labels=saved.labels, hint=saved.hint
        )
    self._data_dir = config.data_dir or ""
    folder = base.SplitFile(self._data_dir, "data_dir")
    missing = folder if config.processor else base.SplitFile(None, "task_name")
    self.files = dict.fromkeys(("train", "dev", "test"), missing)
    for name, split in layout.splits.items():
      path = os.path.join(self._data_dir, split.files[0])
      self.files[name] = base.SplitFile(path, "data_dir")
    if config.data_file:
      file = base.SplitFile(config.data_file, "data_file")
      no_dev = base.SplitFile(None, "eval_fraction")
      dev = file if config.eval_fraction else no_dev
      no_test = base.SplitFile(None, "data_dir")
      self.files = {"train": file, "dev": dev, "test": no_test}

  def _check_pairs(self) -> None:
    long_text = self.config.long_text
    if self.is_pair and long_text not in (None, "truncate"):
      raise ValueError(
        f"long_text {long_text!r} is for single texts, but "
        f"{self.layout.name} has pairs. Set `long_text=truncate`."
      )

  @property
  def label_spec(self) -> run_info.LabelSpec | None:
    """The labels, None until they are known."""
    return None if self.layout.labels is None else self.layout.label_spec()

  @property
  def result_names(self) -> tuple[str, ...]:
    """Names of the results, the task's metrics first."""
    names = (*self.layout.metrics, *super().result_names)
    if self.layout.problem_type == "regression":
      return tuple(name for name in names if name != "eval_accuracy")
    return names

  def read(self, split: str, path: str) -> list[InputExample]:
    """Reads the examples of a split."""
    if self.config.data_file:
      return self._parts[split]
    if self.config.processor:
      labels = self.layout.label_spec().labels
      rows = processors.read_examples(self._processor, split, path, labels)
      self.is_pair |= any(example.text_b is not None for example in rows)
      self._check_pairs()
      return rows
    return examples.read_examples(
      self._data_dir, self.layout, split, self.config.skip_bad_rows
    )

  @functools.cached_property
  def _processor(self) -> processors.DataProcessor:
    assert self.config.processor
    return processors.load(self.config.processor)

  @functools.cached_property
  def _parts(self) -> dict[str, list[InputExample]]:
    # The examples of train and dev in data_file.
    config, path = self.config, str(self.config.data_file)
    fraction, seed = config.eval_fraction, config.train.seed
    skip = config.skip_bad_rows
    rows = examples.read_examples("", self.layout, "train", skip)
    folder = self.setup.folder
    split_file = os.path.join(folder.path, "data_split.json")
    split, bad = {}, set(rows.dropped)
    if has_split := bool(folder.info) and paths.exists(split_file):
      split = json_files.read_object(split_file)
      if "bad_rows" not in split:  # An older version counted only good rows.
        bad = set()
    num_rows = len(rows) + len(bad)
    numbers = [i for i in range(num_rows) if i not in bad]
    if not has_split:
      drawn = examples.hold_out(rows, fraction, seed) if fraction else []
      split = {
        "data_file": path,
        "num_rows": num_rows,
        "bad_rows": sorted(bad),
        "eval_fraction": fraction,
        "seed": seed,
        "dev": [numbers[i] for i in drawn],
      }
    elif split["num_rows"] != num_rows:
      raise ValueError(
        f"{path} has {num_rows} rows, but {split_file} splits "
        f"{split['num_rows']}. Choose another `output_dir` for other data."
      )
    if fraction and not split["dev"]:
      labels = [*prediction.labels_in([row.label for row in rows])]
      fault = "too few different ones to hold any out;"
      if labels and len(set(labels)) == len(labels):
        fault = "and each label occurs once. Is `label_column` right? If so,"
      raise ValueError(
        f"{path} has {len(rows)} rows, {fault} set `eval_fraction=0` and train "
        "without `do_eval`."
      )
    if not has_split and distribution.is_chief():
      atomic.write_lines(split_file, [json.dumps(split)])
    rest = dict(zip(numbers, rows))
    dev = [rest.pop(i) for i in sorted(split["dev"]) if i in rest]
    train = tables.Examples(rest.values())
    train.dropped = rows.dropped
    return {"train": train, "dev": dev}

  def set_labels(self, train: Texts, source: str) -> None:
    """Sets the labels to those of the training examples."""
    labels, kind = examples.infer_labels(train), self.layout.problem_type
    counts = {len(e.label) for e in train if isinstance(e.label, tuple)}
    if counts == {2} and examples.FLAGS.issuperset(labels):
      raise ValueError(
        f"Every label in {source} is multi-hot. Give the names of the labels "
        "that apply, not a 0 or 1 for each label."
      )
    needed = 2 if kind == "classification" else 1
    if len(labels) < needed:
      raise ValueError(
        f"{source} has {len(labels)} labels ({', '.join(labels)}), but at "
        f"least {needed} are needed. Is `label_column` right?"
      )
    self.layout = dataclasses.replace(self.layout, labels=labels)

  def num_inputs(self, data: Texts) -> int:
    """Returns the number of windows of all examples."""
    return sum(self._num_windows(data))

  def _num_windows(self, data: Texts) -> list[int]:
    # The number of windows, and so of records, of each example.
    if self.config.long_text != "windows":
      return [1] * len(data)
    return [self._count_windows(example.text_a) for example in data]

  @functools.cached_property
  def _count_windows(self) -> Callable[[str], int]:
    # Every evaluation asks again, and a long text takes a millisecond.
    return functools.cache(
      lambda text: len(self.answerer.prepare({"text": text}).inputs)
    )

  def encode(self, split: str, data: Texts) -> base.Encoded:
    """Yields the records of an example, each of which has its label."""
    labels = metrics.label_ids(data, self.layout.label_spec()).tolist()
    is_number = self.layout.problem_type == "regression"
    for label_ids, prepared in zip(labels, self.prepared(data)):
      ints, floats = {"is_real_example": [1]}, dict[str, Any]()
      (floats if is_number else ints)["label_ids"] = label_ids
      encoded = [self.record([i], ints, floats) for i in prepared.inputs]
      yield encoded, prepared.is_cut

  def spec(self, split: str) -> input_pipeline.Spec:
    """Returns the features of a record."""
    spec = self.layout.label_spec()
    return input_pipeline.classifier_spec(
      self.max_seq_length, spec.num_outputs, spec.problem_type
    )

  def objective(self) -> objective.Objective:
    """Returns the loss and the metrics of a classifier."""
    return objective.of_classifier(self.layout.problem_type, self.class_weights)

  def scores(self, data: Texts, rows: Sequence[np.ndarray]) -> base.Results:
    """Returns the official metrics and, with windows, means over examples."""
    return metrics.scores(
      self.layout,
      metrics.label_ids(data, self.layout.label_spec()),
      np.stack(rows),
      self._num_windows(data),
    )

  def near_chance(self, data: Texts, accuracy: float) -> float | None:
    """Returns the most frequent label's fraction, if it explains accuracy.

    It does up to two standard errors above it. Warns if that exceeds 1.
    """
    if self.layout.problem_type != "classification":
      return None
    counts = collections.Counter(example.label for example in data)
    num = counts.total()
    chance = max(counts.values()) / num
    noise = 2 * np.sqrt(chance * (1 - chance) / num)
    if chance + noise > 1:
      logging.warning(f"{num} examples are too few to tell this from chance.")
      return None
    return chance if accuracy <= chance + noise else None

  def write_evaluation(
    self,
    output_dir: str,
    data: Texts,
    rows: Sequence[np.ndarray],
  ) -> None:
    """Writes eval_predictions.jsonl and logs the scores of each label."""
    objects = metrics.describe_predictions(
      self.layout, data, self._probabilities(data, rows)
    )
    path = os.path.join(output_dir, "eval_predictions.jsonl")
    results.write_lines(path, map(json_files.encode, objects))

  def write_predictions(
    self, output_dir: str, data: Texts, rows: base.Rows
  ) -> base.Results:
    """Writes test_results.tsv, predictions.jsonl and any submission to GLUE."""
    found = self._ensemble(self._probabilities(data, rows))
    texts = data
    if self.config.processor:  # As in 2018, its labels of "test" mean nothing.
      texts = [dataclasses.replace(example, label=None) for example in texts]
    metrics.write_predictions(output_dir, self.layout, texts, found)
    return {}

  def _probabilities(self, data: Texts, rows: base.Rows) -> np.ndarray:
    logits = answers.mean_over_windows(
      np.stack(list(rows)), self._num_windows(data)
    )
    return prediction.probabilities(logits, self.layout.problem_type)

  def _ensemble(self, probabilities: np.ndarray) -> np.ndarray:
    members, labels = [probabilities], self.label_spec
    for folder in self.config.ensemble_with:
      path = os.path.join(folder, "test_results.tsv")
      lines = paths.read_text(path).splitlines()
      members.append(np.loadtxt(lines, np.float32, ndmin=2))
      others = run_info.read_labels(folder) or labels
      if others != labels or members[-1].shape != probabilities.shape:
        raise ValueError(
          f"{path} (`ensemble_with`) has {len(members[-1])} rows of "
          f"probabilities and belongs to {others}, but this run has "
          f"{len(probabilities)} rows and {labels}."
        )
    return np.mean(members, axis=0)

  def run_info(self) -> run_info.RunInfo:
    """Adds whether the inputs are pairs."""
    info = super().run_info()
    settings = dataclasses.replace(info.settings, is_pair=self.is_pair)
    return dataclasses.replace(info, settings=settings)

  def inputs_and_answer(
    self, example: InputExample
  ) -> tuple[dict[str, Any], Any]:
    """Returns the texts and the label."""
    inputs = {"text": example.text_a}
    if example.text_b is not None:
      inputs["text_b"] = example.text_b
    return inputs, example.label
