"""Where the rows of a classification come from, and what their labels are."""

import collections
import dataclasses
import json
import math
import numbers
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf import distribution
from bert_tf.checkpoint import run_info
from bert_tf.checkpoint.run_info import LabelSpec
from bert_tf.files import atomic, json_files, paths, tables
from bert_tf.files.tables import BadRowError, Column
from bert_tf.tasks.base import SplitFile
from bert_tf.tasks.classification import processors
from bert_tf.tasks.classification.config import (
  LABEL_SEPARATOR,
  ClassificationConfig,
)
from bert_tf.tasks.classification.metrics import RANKING_METRICS
from bert_tf.tasks.rows import Row, hold_out_texts, labels_in

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class Split:
  """The file of a split, and the columns that are read."""

  file: str  # The path below the task's folder.
  prefix: str  # The beginning of the ids.
  text: Column
  text_b: Column | None = None  # The second text of a pair.
  label: Column | None = None
  # Column that the ids end in; None for the line, counted from 0.
  id: Column | None = None
  # (column, value) of the rows to read; None for all rows.
  only: tuple[Column, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
  """The rows of a task, by default of tables in a folder, and their labels.

  A row has `id`, `text`, `text_b` of a pair, and `label`: a name, the number of
  a regression, or the names that apply in multilabel. A row without a label in
  a test file has none, nor one in a training file if there is a teacher.
  """

  name: str = ""  # The task's name, as its authors write it.
  # The labels that the task prescribes, in the order of their ids; None to take
  # them from the training rows; () for numbers.
  labels: tuple[str, ...] | None = None
  problem_type: str = run_info.CLASSIFICATION
  metrics: tuple[str, ...] = ()  # In addition to accuracy; of metrics.METRICS.
  # The least and the largest number as a label.
  number_range: tuple[float, float] = (-math.inf, math.inf)
  # Other spellings of labels.
  label_spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)
  has_teacher: bool = False  # Whether training rows may have no label.
  submission: str | None = None  # Name of the file to upload to GLUE, or None.
  data_dir: str = ""
  # The splits that exist.
  splits: Mapping[str, Split] = dataclasses.field(default_factory=dict)
  file_format: str = "tsv"  # One of config.FILE_FORMATS.
  # The setting that names a column of the user's own files, by column.
  settings: Mapping[Column, str] = dataclasses.field(default_factory=dict)

  @property
  def files(self) -> Mapping[str, SplitFile]:
    """The file or folder of each split."""
    files = dict.fromkeys(SPLITS, SplitFile(None, "task_name"))
    for name, split in self.splits.items():
      path = os.path.join(self.data_dir, split.file)
      files[name] = SplitFile(path, "data_dir")
    return files

  def read(self, split: str, labels: LabelSpec | None) -> list[Row]:
    """Reads the rows of a split. If `labels` is None, any label is valid.

    Raises ValueError for a missing column, a faulty row or if there is no row;
    names the file and the line.
    """
    source, is_test = self.splits[split], split == "test"
    has_teacher = self.has_teacher and split == "train"
    only, value = source.only or (None, None)

    def convert(line: int, cells: tables.Row) -> Row | None:
      if only is not None and tables.get_cell(cells, only) != value:
        return None
      end = line - 1 if source.id is None else tables.get_cell(cells, source.id)
      text = tables.get_text(cells, source.text, may_be_empty=is_test)
      row: Row = {"id": f"{source.prefix}-{end}", "text": text}
      if source.text_b is not None:
        # An empty second text means a single text, as in the 2018 release.
        row["text_b"] = tables.get_text(cells, source.text_b, may_be_empty=True)
      if source.label is not None:
        cell = None
        try:
          cell = tables.get_cell(cells, source.label)
          row["label"] = self.read_label(cell, labels)
        except BadRowError:
          if not (is_test or (has_teacher and cell in (None, ""))):
            raise
      return row

    path = os.path.join(self.data_dir, source.file)
    # A test file may have labels, which its predictions then show.
    label = [] if source.label is None else [source.label]
    columns = [source.text, source.text_b, source.id, only]
    columns += [] if is_test or has_teacher else label
    needed = [column for column in columns if column is not None]
    table = tables.Table(path, self.file_format, needed, self.settings, label)
    rows = list(tables.read(table, convert))
    if not rows:
      wanted = f" with {only} {value!r}" if source.only else ""
      raise ValueError(f"{path} holds no examples{wanted}.")
    return rows

  def read_label(
    self, value: Any, labels: LabelSpec | None
  ) -> str | float | list[str]:
    """Parses a cell or a Python value; raises BadRowError if it is no label."""
    if self.problem_type in run_info.NUMBERS:
      return read_number(value, *self.number_range)
    if self.problem_type == run_info.CLASSIFICATION:
      return self._read_name(value, labels)
    if isinstance(value, str):
      value = [name for name in value.split(LABEL_SEPARATOR) if name.strip()]
    if not isinstance(value, list):
      raise BadRowError(f"label {value!r} is not a list of labels")
    names = [self._read_name(name, labels) for name in value]
    if len(set(names)) < len(names):
      raise BadRowError(
        f"label {value!r} has a label twice; give the names of the labels that "
        "apply, not a 0 or 1 for each label"
      )
    return names

  def _read_name(self, value: Any, labels: LabelSpec | None) -> str:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if not (is_number or isinstance(value, str)):
      raise BadRowError(
        f"label {value!r} is not text, a finite number, true or false"
      )
    name = value.strip() if isinstance(value, str) else json.dumps(value)
    name = self.label_spellings.get(name, name)
    if not name:
      raise BadRowError("the label is empty")
    if not tables.is_unicode(name):
      raise BadRowError(f"label {value!r} has a lone surrogate")
    if labels is not None and name not in labels.labels:
      raise BadRowError(labels.unknown_label(value))
    return name


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFileSource(Source):
  """A single table, of which a part is held out as dev.

  The folder of the run keeps that split. A later command with the same folder
  uses it, whatever its flags are, so that it never evaluates on rows that the
  model was trained on.
  """

  config: ClassificationConfig
  # The rows by split, once they are read.
  _rows: dict[str, list[Row]] = dataclasses.field(
    default_factory=dict, init=False, compare=False
  )

  @property
  def files(self) -> Mapping[str, SplitFile]:
    """The file, for both of its splits."""
    train = SplitFile(self.config.data_file, "data_file")
    dev = (
      train if self.config.eval_fraction else SplitFile(None, "eval_fraction")
    )
    return {"train": train, "dev": dev, "test": SplitFile(None, "data_dir")}

  def read(self, split: str, labels: LabelSpec | None) -> list[Row]:
    """Reads the file at the first call, and splits it."""
    if not self._rows:
      rows = super().read("train", labels)
      train = dict(enumerate(rows))
      dev = [train.pop(index) for index in self._hold_out(rows)]
      self._rows.update(train=[*train.values()], dev=dev)
    return self._rows[split]

  def _hold_out(self, rows: Sequence[Row]) -> list[int]:
    """Returns the indices of the dev rows: those of the run, or new ones."""
    path, fraction = self.config.data_file, self.config.eval_fraction
    seed, output_dir = self.config.train.seed, self.config.train.output_dir
    split_file = os.path.join(output_dir, "data_split.json")
    has_run = paths.exists(os.path.join(output_dir, run_info.RUN_FILE))
    if has_split := has_run and paths.exists(split_file):
      split = json_files.read_object(split_file)
      if split["num_rows"] != len(rows):
        raise ValueError(
          f"{path} has {len(rows)} rows, but {split_file} splits "
          f"{split['num_rows']}. Choose another `output_dir` for other data."
        )
    else:
      if self.problem_type == run_info.RANKING:
        texts = hold_out_texts(rows, fraction)
        dev = [i for i in texts if rows[i].get("label") is not None]
      else:
        dev = choose_dev_rows(rows, fraction, seed) if fraction else []
      split = {
        "data_file": path,
        "num_rows": len(rows),
        "eval_fraction": fraction,
        "seed": seed,
        "dev": dev,
      }
    if fraction and not split["dev"]:
      raise ValueError(
        f"{path} has {len(rows)} rows, but no label has two different ones, so "
        "none can be held out. Is `label_column` right? If so, set "
        "`eval_fraction=0` and train without `do_eval`."
      )
    if not has_split and distribution.is_chief():
      atomic.write_lines(split_file, [json.dumps(split)])
    return sorted(split["dev"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProcessorSource(Source):
  """The examples of a DataProcessor, which reads a folder."""

  processor: processors.DataProcessor

  @property
  def files(self) -> Mapping[str, SplitFile]:
    """The folder, for each split."""
    return dict.fromkeys(SPLITS, SplitFile(self.data_dir, "data_dir"))

  def read(self, split: str, labels: LabelSpec | None) -> list[Row]:
    """Reads the examples of a split.

    Rows of "test" have no label, since those of 2018's processors mean nothing.
    """
    method = f"get_{split}_examples"
    where = f"{type(self.processor).__name__}.{method}()"
    rows: list[Row] = []
    for example in getattr(self.processor, method)(self.data_dir):
      row = {"id": str(example.guid), "text": example.text_a}
      if example.text_b:  # As in the original, "" means a single text.
        row["text_b"] = example.text_b
      if split != "test":
        row["label"] = str(example.label)
        if labels and row["label"] not in labels.labels:
          fault = labels.unknown_label(example.label)
          raise ValueError(f"{where}, {example.guid}: {fault}.")
      rows.append(row)
    if not rows:
      raise ValueError(f"{where} returns no examples.")
    return rows


def own_source(
  config: ClassificationConfig, saved: LabelSpec | None = None
) -> Source:
  """Returns the source of a user's own tables.

  They have the name and the problem type of the labels that are saved in
  output_dir, unless the config has another type.
  """
  names = ("text_a_column", "text_b_column", "label_column")
  columns = tables.parse_columns(
    str(config.file_format), [getattr(config, name) for name in names]
  )
  text, text_b, label = columns
  if text is None or label is None:
    raise ValueError("`text_a_column` and `label_column` cannot be empty.")
  default = saved.problem_type if saved else run_info.CLASSIFICATION
  problem_type = config.problem_type or default
  metrics = {
    "classification": ("macro_f1",),
    "regression": ("pearson", "spearman"),
    "multilabel": ("micro_f1", "macro_f1"),
    "ranking": RANKING_METRICS,
  }
  files = {name: (f"{name}.{config.file_format}", name) for name in SPLITS}
  if config.data_file:
    files = {"train": (config.data_file, "row")}
  fields: dict[str, Any] = {
    "name": saved.task_name if saved else "own data",
    "labels": () if problem_type in run_info.NUMBERS else None,
    "problem_type": problem_type,
    "metrics": metrics[problem_type],
    "data_dir": config.data_dir or "",
    "splits": {n: Split(*f, text, text_b, label) for n, f in files.items()},
    "file_format": config.file_format,
    "settings": dict(zip(columns, names)),
  }
  if problem_type == run_info.RANKING:
    fields["number_range"] = (0.0, 1.0)
  if config.data_file:
    return DataFileSource(config=config, **fields)
  return Source(**fields)


def processor_source(config: ClassificationConfig) -> ProcessorSource:
  """Returns the source of a processor; its labels become text.

  Raises ValueError unless it has two or more different labels.
  """
  processor = processors.load_processor(str(config.processor))
  name = type(processor).__name__
  labels = tuple(map(str, processor.get_labels()))
  if len(set(labels)) < max(2, len(labels)):
    raise ValueError(
      f"{name}.get_labels() returns {labels!r} instead of two or more "
      "different labels."
    )
  return ProcessorSource(
    name=config.task_name or name,
    labels=labels,
    data_dir=str(config.data_dir),
    processor=processor,
  )


def read_number(value: Any, low: float, high: float) -> float:
  """Parses a label from low to high; raises BadRowError if it is none."""
  try:  # Other types, such as NumPy's datetime64, are not numbers.
    is_real = isinstance(value, str | numbers.Real)
    number = float(value) if is_real else math.nan
  except ValueError:
    number = math.nan
  if not (math.isfinite(number) and low <= number <= high):
    raise BadRowError(f"label {value!r} is not a number from {low} to {high}")
  return number


def choose_dev_rows(
  rows: Sequence[Row], fraction: float, seed: int
) -> list[int]:
  """Draws rows to evaluate on, about the same fraction of each label.

  Every label keeps at least one example to train on; copies are not held out.

  Returns:
    Indices into `rows`, ascending: fraction * len(rows), rounded, but at least
    one if there is any that may be held out.
  """
  texts = [(row["text"], row.get("text_b")) for row in rows]
  copies = collections.Counter(texts)
  order = list(range(len(rows)))
  random.Random(seed).shuffle(order)
  seen: set[str] = set()
  candidates = []
  for index in order:
    if rows[index].get("label") is None:
      continue
    names = set(labels_in(rows[index]["label"]))
    if names <= seen and copies[texts[index]] == 1:
      candidates.append(index)
    seen |= names
  # Every n-th of the sorted examples holds out each label in proportion.
  candidates.sort(key=lambda index: rows[index]["label"])
  num = min(len(candidates), max(1, round(fraction * len(rows))))
  return sorted(
    candidates[(2 * i + 1) * len(candidates) // (2 * num)] for i in range(num)
  )
