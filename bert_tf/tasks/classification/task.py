"""Fine-tuning on single texts and pairs (Devlin et al. 2019, 4.1)."""

import collections
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from bert_tf import distribution
from bert_tf.checkpoint import run_info
from bert_tf.files import atomic, json_files, paths, tables, text_lines
from bert_tf.model import losses
from bert_tf.model.tensor import Tensor
from bert_tf.tasks import base
from bert_tf.tasks.classification import config as config_lib
from bert_tf.tasks.classification import (
  glue,
  layouts,
  metrics,
  processors,
  windows,
)
from bert_tf.tasks.rows import Answer, Results, Row, labels_in
from bert_tf.training import results

Rows = Sequence[Row]


def file_layout(
  config: config_lib.ClassificationConfig,
  saved: run_info.LabelSpec | None = None,
) -> layouts.FileLayout:
  """Returns the layout of the files that a config describes.

  Files of the user's own have the problem type of the labels that are saved in
  output_dir, unless the config names another. With a processor, the layout has
  only labels.
  """
  if config.processor:
    labels = processors.labels(processors.load(config.processor))
    name = config.task_name or config.processor.rpartition(":")[2]
    return layouts.FileLayout(name, labels, (), {})
  data_dir = config.data_dir or ""
  if config.file_format is None:
    assert config.task_name is not None
    layout = glue.get_task(config.task_name, config.xnli_language)
    return glue.find_files(layout, data_dir)
  default = saved.problem_type if saved else run_info.CLASSIFICATION
  layout = layouts.own_files(
    config.file_format,
    config.problem_type or default,
    config.text_a_column,
    config.text_b_column,
    config.label_column,
  )
  if saved:
    layout = dataclasses.replace(layout, name=saved.task_name)
  if config.data_file:
    rows = dataclasses.replace(
      layout.splits["train"], files=(config.data_file,), prefix="row"
    )
    return dataclasses.replace(layout, splits={"train": rows})
  if config.file_format == "parquet":
    return layouts.with_parquet_files(layout, data_dir)
  return layout


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationTask(base.Task[config_lib.ClassificationSettings]):
  """Classification of texts or pairs.

  The rows come from the files of a layout, from a processor, or from a single
  file, of which a part is held out as dev. The folder of the run keeps that
  split. A later command with the same folder uses it, whatever its flags are,
  so that it never evaluates on rows that the model was trained on.

  An answer has the `label` and the `probabilities` of all labels, which are {}
  in a regression.

  Args:
    layout: the files of the task's data; None without a config.
    parts: the rows of a single file, by split, once they are read.
  """

  name = "classification"
  fields = ("text", "text_b")
  first_results = ("eval_accuracy", "eval_loss", "global_step", "loss")
  loss_mask = "is_real_example"
  reuses_records = True

  layout: layouts.FileLayout | None = None
  parts: dict[str, Rows] = dataclasses.field(
    default_factory=dict, compare=False, repr=False
  )

  @classmethod
  def create(cls, setup: base.Setup[Any]) -> "ClassificationTask":
    """Returns the task of a run, with labels if they are known before."""
    layout = file_layout(setup.config, setup.folder.labels)
    saved = setup.saved_labels(layout.labels)
    if saved and saved.problem_type != layout.problem_type:
      saved = None
    labels = saved
    if labels:
      labels = dataclasses.replace(labels, task_name=layout.name)
    if layout.labels is not None:
      labels = run_info.LabelSpec(
        layout.name,
        layout.problem_type,
        layout.labels,
        saved is None or saved.are_text,
      )
    task = cls.build(setup, labels=labels, layout=layout)
    return task._with_is_pair(layout.is_pair)

  def _with_is_pair(self, is_pair: bool) -> "ClassificationTask":
    """Returns the task whose rows are pairs, or single texts."""
    long_text = self.settings.long_text
    if is_pair and long_text not in (None, "truncate"):
      raise ValueError(
        f"long_text {long_text!r} is for single texts, but "
        f"{self._layout.name} has pairs. Set `long_text=truncate`."
      )
    changed = dataclasses.replace(self.settings, is_pair=is_pair)
    return dataclasses.replace(self, settings=changed)

  @property
  def _layout(self) -> layouts.FileLayout:
    assert self.layout is not None
    return self.layout

  @property
  def _spec(self) -> run_info.LabelSpec:
    assert self.labels is not None
    return self.labels

  @property
  def counts_windows(self) -> bool:
    """Whether the windows of long texts count as training examples."""
    return self.settings.long_text == "windows"

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the results, the task's metrics first."""
    names = (*self._layout.metrics, *super().metrics)
    if self._layout.problem_type == run_info.REGRESSION:
      return tuple(name for name in names if name != "eval_accuracy")
    return names

  @property
  def files(self) -> Mapping[str, base.SplitFile]:
    """The file of each split."""
    config, data_dir = self.config, self.config.data_dir or ""
    if config.data_file:
      file = base.SplitFile(config.data_file, "data_file")
      no_dev = base.SplitFile(None, "eval_fraction")
      dev = file if config.eval_fraction else no_dev
      no_test = base.SplitFile(None, "data_dir")
      return {"train": file, "dev": dev, "test": no_test}
    folder = base.SplitFile(data_dir, "data_dir")
    missing = folder if config.processor else base.SplitFile(None, "task_name")
    found = dict.fromkeys(("train", "dev", "test"), missing)
    for name, split in self._layout.splits.items():
      path = os.path.join(data_dir, split.files[0])
      found[name] = base.SplitFile(path, "data_dir")
    return found

  def read(self, split: str) -> Rows:
    """Reads the rows of a split."""
    config = self.config
    if config.data_file:
      if not self.parts:
        self.parts.update(_read_parts(config, self._layout, self.labels))
      return self.parts[split]
    if config.processor:
      processor = processors.load(config.processor)
      rows = processors.read_rows(
        processor, split, config.data_dir or "", self._spec.labels
      )
      if split == "test":  # As in 2018, its labels of "test" mean nothing.
        rows = [{**row, "label": None} for row in rows]
      return rows
    return layouts.read_rows(
      config.data_dir or "",
      self._layout,
      self.labels,
      split,
      config.skip_bad_rows,
    )

  def add_label(self, row: Row, label: Any, split: str) -> Row:
    """Adds a class, a number or a list of classes."""
    label = list(label) if isinstance(label, tuple | set) else label
    name = layouts.read_label(label, self._layout, self.labels)
    return {**row, "label": name}

  def infer(self, rows: Rows, source: str) -> "ClassificationTask":
    """Returns the task with its labels, and whether its rows are pairs."""
    task = super().infer(rows, source)
    is_pair = bool(self.settings.is_pair) or any("text_b" in r for r in rows)
    return task._with_is_pair(is_pair)

  def infer_labels(self, rows: Rows, source: str) -> run_info.LabelSpec:
    """Returns the labels of the training rows, sorted."""
    labels, kind = layouts.infer_labels(rows), self._layout.problem_type
    counts = {len(r["label"]) for r in rows if isinstance(r["label"], list)}
    if counts == {2} and layouts.FLAGS.issuperset(labels):
      raise ValueError(
        f"Every label in {source} is multi-hot. Give the names of the labels "
        "that apply, not a 0 or 1 for each label."
      )
    needed = 2 if kind == run_info.CLASSIFICATION else 1
    if len(labels) < needed:
      raise ValueError(
        f"{source} has {len(labels)} labels ({', '.join(labels)}), but at "
        f"least {needed} are needed. Is `label_column` right?"
      )
    return run_info.LabelSpec(self._layout.name, kind, labels)

  def preprocess(self, rows: Iterable[Row]) -> Iterator[base.Inputs]:
    """Yields one sequence of a row; several if `long_text` reads windows."""
    tokenize, room = self.tokenizer.tokenize_to_ids, self.max_seq_length - 2
    for row in rows:
      ids_a, ids_b = tokenize(row["text"]), None
      parts: list[Sequence[int]] = [ids_a]
      if "text_b" in row:
        ids_b = tokenize(row["text_b"])
      else:
        parts = windows.cut_windows(ids_a, room, self.settings.long_text)
      yield base.Inputs(
        [self.pack(part, ids_b) for part in parts],
        is_cut=self.is_cut(ids_a, ids_b),
      )

  def targets(self, row: Row, inputs: base.Inputs) -> Iterable[base.Features]:
    """Yields the label of the row for each of its windows."""
    [label_ids] = metrics.label_ids([row.get("label")], self._spec)
    features = {"label_ids": label_ids, "is_real_example": np.array([1])}
    for _ in inputs.sequences:
      yield features

  def compute_losses(
    self, outputs: Tensor, features: losses.Features
  ) -> tuple[Tensor, Tensor | None]:
    """Returns the loss of each example, and whether its label is right."""
    target = features["label_ids"], self._spec.problem_type
    return (
      losses.per_example_loss(outputs, *target),
      losses.per_example_hits(outputs, *target),
    )

  def postprocess(
    self, inputs: base.Inputs, outputs: Sequence[base.Outputs]
  ) -> Answer:
    """Returns the label for the mean logits of the windows."""
    logits = np.stack([output["logits"] for output in outputs])  # [windows, C]
    mean = logits.sum(axis=0) / np.float32(len(logits))
    kind = self._spec.problem_type
    return metrics.to_json(self._spec, base.probabilities(mean, kind))

  def score(self, rows: Rows, answers: Sequence[Answer]) -> Results:
    """Returns the official metrics and, with windows, means over rows."""
    means = {}
    if self.counts_windows:
      means = metrics.means_over_rows(self._spec, rows, answers)
    names = self._layout.metrics
    return means | metrics.scores(names, self._spec, rows, answers)

  def near_chance(self, rows: Rows, accuracy: float) -> float | None:
    """Returns the most frequent label's fraction, if it explains accuracy.

    It explains accuracies up to two standard errors above it. Warns if that is
    all of them.
    """
    if self._spec.problem_type != run_info.CLASSIFICATION:
      return None
    counts = collections.Counter(row["label"] for row in rows)
    num = counts.total()
    chance = max(counts.values()) / num
    noise = 2 * np.sqrt(chance * (1 - chance) / num)
    if chance + noise > 1:
      logging.warning(f"{num} examples are too few to tell this from chance.")
      return None
    return chance if accuracy <= chance + noise else None

  def write_evaluation(
    self, output_dir: str, rows: Rows, answers: Sequence[Answer]
  ) -> None:
    """Writes eval_predictions.jsonl and logs the scores of each label."""
    objects = metrics.describe_predictions(self._spec, rows, answers)
    path = os.path.join(output_dir, "eval_predictions.jsonl")
    results.write_lines(path, map(json_files.encode, objects))

  def write_predictions(
    self, output_dir: str, rows: Rows, answers: Iterable[Answer]
  ) -> Results:
    """Writes test_results.tsv, predictions.jsonl and any submission to GLUE."""
    found = list(answers)
    if self.config.ensemble_with:
      found = self._ensemble(found)
    metrics.write_predictions(output_dir, self._layout, self._spec, rows, found)
    return {}

  def _ensemble(self, answers: Sequence[Answer]) -> list[Answer]:
    members = [metrics.to_probabilities(answers)]
    for folder in self.config.ensemble_with:
      path = os.path.join(folder, "test_results.tsv")
      lines = text_lines.read_text(path).splitlines()
      members.append(np.loadtxt(lines, np.float32, ndmin=2))
      others = run_info.read_labels(folder) or self.labels
      if others != self.labels or members[-1].shape != members[0].shape:
        raise ValueError(
          f"{path} (`ensemble_with`) has {len(members[-1])} rows of "
          f"probabilities and belongs to {others}, but this run has "
          f"{len(answers)} rows and {self.labels}."
        )
    means = np.mean(members, axis=0)
    return [metrics.to_json(self._spec, row) for row in means]


def _read_parts(
  config: config_lib.ClassificationConfig,
  layout: layouts.FileLayout,
  labels: run_info.LabelSpec | None,
) -> dict[str, Rows]:
  """Returns the rows of train and dev in data_file."""
  path, fraction = str(config.data_file), config.eval_fraction
  seed, output_dir = config.train.seed, config.train.output_dir
  rows = layouts.read_rows("", layout, labels, "train", config.skip_bad_rows)
  split_file = os.path.join(output_dir, "data_split.json")
  split, bad = {}, set(rows.dropped)
  num_rows = len(rows) + len(bad)
  numbers = [i for i in range(num_rows) if i not in bad]
  has_run = paths.exists(os.path.join(output_dir, run_info.RUN_FILE))
  if has_split := has_run and paths.exists(split_file):
    split = json_files.read_object(split_file)
    if split["num_rows"] != num_rows:
      raise ValueError(
        f"{path} has {num_rows} rows, but {split_file} splits "
        f"{split['num_rows']}. Choose another `output_dir` for other data."
      )
  else:
    drawn = layouts.hold_out(rows, fraction, seed) if fraction else []
    split = {
      "data_file": path,
      "num_rows": num_rows,
      "bad_rows": sorted(bad),
      "eval_fraction": fraction,
      "seed": seed,
      "dev": [numbers[i] for i in drawn],
    }
  if fraction and not split["dev"]:
    names = [*labels_in([row["label"] for row in rows])]
    fault = "too few different ones to hold any out;"
    if names and len(set(names)) == len(names):
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
