"""Reads labelled texts from TSV, CSV, JSON-lines and Parquet files as rows."""

import dataclasses
import json
import math
import numbers
import os
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf.checkpoint import run_info
from bert_tf.files import tables
from bert_tf.files.tables import Column
from bert_tf.tasks.classification import config
from bert_tf.tasks.rows import Row, labels_in

# Metrics of a user's own data in addition to accuracy.
_OWN_METRICS = {
  "classification": ("macro_f1",),
  "regression": ("pearson", "spearman"),
  "multilabel": ("micro_f1", "macro_f1"),
}

# Labels that look like elements of a multi-hot list.
FLAGS = frozenset(("0", "1", "0.0", "1.0", "false", "true"))
# Cells of text with a list, of quoted labels or multi-hot, such as "[0, 1, 1]".
_QUOTED = r"\[\s*(?:'.*'|\".*\")\s*\]"
_MULTI_HOT = r"\[?\s*[01](?:[\s,;]+[01])+\s*\]?"
_LIST = re.compile(rf"\s*(?:{_QUOTED}|{_MULTI_HOT})\s*", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Split:
  """One split of a task: its files and the columns that are read."""

  files: tuple[str, ...]  # Paths below the task's folder; several are shards.
  prefix: str  # The beginning of the guids.
  text_a: Column  # Column of the text, or of the first of a pair.
  text_b: Column | None = None  # Column of the second, or None.
  # Column of the label, or None without labels.
  label: Column | None = None
  # Column that the guids end in; None for the line, counted from 0.
  guid: Column | None = None
  # (column, value) of the rows to read; None for all rows.
  only: tuple[Column, str] | None = None


@dataclasses.dataclass(frozen=True)
class FileLayout:
  """The files of a task: their format, columns and labels."""

  name: str  # The task's name, as its authors write it.
  # The labels that the task prescribes, in the order of their ids; None to take
  # them from the training file; () in a regression.
  labels: tuple[str, ...] | None
  # Metrics in addition to accuracy, names in metrics.METRICS.
  metrics: tuple[str, ...]
  # The splits that exist, of "train", "dev" and "test".
  splits: Mapping[str, Split]
  problem_type: str = "classification"  # One of run_info.PROBLEM_TYPES.
  # Least and largest number of a regression, or None.
  number_range: tuple[float, float] | None = None
  # Other spellings of labels.
  label_spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)
  submission: str | None = None  # Name of the file to upload to GLUE, or None.
  file_format: str = "tsv"  # One of config.FILE_FORMATS.
  # The setting that names a column of the user's own files, by column.
  settings: Mapping[Column, str] = dataclasses.field(default_factory=dict)

  @property
  def is_pair(self) -> bool:
    """Whether an example is a pair of texts."""
    return any(split.text_b is not None for split in self.splits.values())


def own_files(
  file_format: str,
  problem_type: str,
  text_a_column: str,
  text_b_column: str | None,
  label_column: str,
) -> FileLayout:
  """Returns the layout of a user's own train, dev and test files.

  The arguments are settings of config.ClassificationConfig.
  """
  text_a, text_b, label = tables.parse_columns(
    file_format, (text_a_column, text_b_column, label_column)
  )
  if text_a is None or label is None:
    raise ValueError("`text_a_column` and `label_column` cannot be empty.")
  settings = {text_a: "text_a_column", label: "label_column"}
  if text_b is not None:
    settings[text_b] = "text_b_column"
  return FileLayout(
    name="own data",
    labels=() if problem_type == "regression" else None,
    metrics=_OWN_METRICS[problem_type],
    splits={
      name: Split((f"{name}.{file_format}",), name, text_a, text_b, label)
      for name in ("train", "dev", "test")
    },
    problem_type=problem_type,
    file_format=file_format,
    settings=settings,
  )


def with_parquet_files(
  layout: FileLayout, data_dir: str, folder: str = "", kind: str = ""
) -> FileLayout:
  """Returns the layout of the Parquet files in a folder below data_dir.

  kind is the end of the names of the dev and test splits. A split without files
  has the name of a file that does not exist.
  """
  splits = {}
  for name, split in layout.splits.items():
    names = ("dev", "validation") if name == "dev" else (name,)
    end = "" if name == "train" else kind
    paths = [os.path.join(folder, each + end) for each in names]
    files = tuple(
      path.removeprefix(data_dir).lstrip("/")
      for path in tables.find_parquet_files(data_dir, *paths)
    )
    files = files or (f"{paths[-1]}.parquet",)
    splits[name] = dataclasses.replace(split, files=files)
  return dataclasses.replace(layout, splits=splits, file_format="parquet")


def hold_out(data: Sequence[Row], fraction: float, seed: int) -> list[int]:
  """Draws rows to evaluate on, about the same fraction of each label.

  Every label keeps at least one example to train on; copies are not held out.

  Returns:
    Indices into `data`, ascending: fraction * len(data), rounded, but at least
    one if there is any that may be held out.
  """
  order = list(range(len(data)))
  random.Random(seed).shuffle(order)
  seen: set[str] = set()
  candidates = []
  for index in order:
    names = set(labels_in(data[index]["label"]))
    if names <= seen:
      candidates.append(index)
    seen |= names
  # Every n-th of the sorted examples holds out each label in proportion.
  candidates.sort(key=lambda index: data[index]["label"])
  num = min(len(candidates), max(1, round(fraction * len(data))))
  drawn = {
    candidates[(2 * i + 1) * len(candidates) // (2 * num)] for i in range(num)
  }
  texts = [(row["text"], row.get("text_b")) for row in data]
  train = {texts[i] for i in order if i not in drawn}
  dev = sorted(i for i in drawn if texts[i] not in train)
  if len(dev) < num:
    logging.warning(
      f"{num - len(dev)} of the {num} rows drawn for evaluation repeat texts "
      "of training rows, so they are trained on instead."
    )
  return dev


def read_rows(
  data_dir: str,
  layout: FileLayout,
  labels: run_info.LabelSpec | None,
  name: str,
  skip_bad_rows: bool = False,
) -> tables.Examples[Row]:
  """Reads one split of a task; ignores blank lines.

  A row has `id`, `text`, `text_b` of a pair, and `label`: a name, the number of
  a regression, or the names that apply in multilabel. A row without a label in
  a test file has none.

  Raises ValueError with file and line for a faulty row, unless skip_bad_rows
  leaves it out; also for a missing column, or if the file holds no row. If
  `labels` is None, any label is valid.
  """
  split = layout.splits[name]
  only, value = split.only or (None, None)
  is_test = name == "test"
  texts = (split.text_a, split.text_b, split.guid, only)
  needed = [column for column in texts if column is not None]
  optional: list[Column] = []
  if split.label is not None:
    # A test file may have labels, which its predictions then show.
    (optional if is_test else needed).append(split.label)
  rows: tables.Examples[Row] = tables.Examples()
  num_before = 0

  def convert(line: int, row: tables.Row) -> Row | None:
    if only is not None and tables.get_cell(row, only) != value:
      return None
    end = num_before + line - 1
    if split.guid is not None:
      end = tables.get_cell(row, split.guid)
    converted: Row = {"id": f"{split.prefix}-{end}"}
    converted["text"] = tables.get_text(row, split.text_a, may_be_empty=is_test)
    if split.text_b is not None:
      # An empty second text means a single text, as in the 2018 release.
      text_b = tables.get_text(row, split.text_b, may_be_empty=True)
      converted["text_b"] = text_b
    if split.label is not None:
      try:
        cell = tables.get_cell(row, split.label)
        converted["label"] = read_label(cell, layout, labels)
      except tables.BadRowError:
        if not is_test:
          raise
    return converted

  for file in split.files:
    table = tables.Table(
      os.path.join(data_dir, file),
      layout.file_format,
      needed,
      layout.settings,
      optional,
    )
    num_before = len(rows) + len(rows.dropped)
    # Predictions must match the test file row by row.
    skip = None if is_test else skip_bad_rows
    shard = tables.read(table, convert, skip)
    rows += shard
    dropped = (num_before + number for number in shard.dropped)
    rows.dropped = [*rows.dropped, *dropped]
  if not rows:
    wanted = f" with {only} {value!r}" if split.only else ""
    raise ValueError(f"{table.path} holds no examples{wanted}.")
  return rows


def infer_labels(rows: Sequence[Row]) -> tuple[str, ...]:
  """Returns the labels of rows, sorted.

  Sorts by value if all labels are whole numbers, otherwise as text.
  """
  labels = {*labels_in([row["label"] for row in rows])}
  if all(label.isdecimal() for label in labels):
    return tuple(sorted(labels, key=lambda label: (int(label), label)))
  return tuple(sorted(labels))


def read_label(
  value: Any, layout: FileLayout, labels: run_info.LabelSpec | None
) -> str | float | list[str]:
  """Parses a cell or a Python value; raises tables.BadRowError if no label."""
  if layout.problem_type == "regression":
    return _read_number(value, layout.number_range or (-math.inf, math.inf))
  if layout.problem_type == "classification":
    return _read_name(value, layout, labels)
  if isinstance(value, str):
    if _LIST.fullmatch(value):
      raise tables.BadRowError(
        f"label {value!r} is a list; put {config.LABEL_SEPARATOR} between the "
        "names of the labels that apply"
      )
    parts = value.split(config.LABEL_SEPARATOR)
    value = [name for name in parts if name.strip()]
  if not isinstance(value, list):
    raise tables.BadRowError(f"label {value!r} is not a list of labels")
  names = [_read_name(name, layout, labels) for name in value]
  if len(set(names)) < len(names):
    raise tables.BadRowError(
      f"label {value!r} has a label twice; give the names of the labels that "
      "apply, not a 0 or 1 for each label"
    )
  return names


def _read_name(
  value: Any, layout: FileLayout, labels: run_info.LabelSpec | None
) -> str:
  is_number = isinstance(value, int | float) and math.isfinite(value)
  if not (is_number or isinstance(value, str)):
    raise tables.BadRowError(
      f"label {value!r} is not text, a finite number, true or false"
    )
  name = value if isinstance(value, str) else json.dumps(value)
  name = layout.label_spellings.get(name.strip(), name.strip())
  if not name:
    raise tables.BadRowError("the label is empty")
  if not tables.is_unicode(name):
    raise tables.BadRowError(f"label {value!r} has a lone surrogate")
  if labels is not None and name not in labels.labels:
    raise tables.BadRowError(labels.unknown_label(value))
  return name


def _read_number(value: Any, limits: tuple[float, float]) -> float:
  try:  # Other types, such as NumPy's datetime64, are not numbers.
    number = float(value) if isinstance(value, str | numbers.Real) else math.nan
  except ValueError:
    number = math.nan
  if not math.isfinite(number):
    raise tables.BadRowError(f"label {value!r} is not a finite number")
  low, high = limits
  if not low <= number <= high:
    raise tables.BadRowError(f"label {value!r} is not between {low} and {high}")
  return number
