"""Reads labelled texts from TSV, CSV, JSON-lines and Parquet files as rows."""

import collections
import dataclasses
import json
import math
import numbers
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.checkpoint.run_info import LabelSpec
from bert_tf.files import tables
from bert_tf.files.tables import BadRowError, Column
from bert_tf.tasks.classification.config import LABEL_SEPARATOR
from bert_tf.tasks.rows import Row, labels_in


@dataclasses.dataclass(frozen=True)
class Split:
  """One split of a task: its file and the columns that are read."""

  file: str  # The path below the task's folder.
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
  # Metrics in addition to accuracy, names in task.METRICS.
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
  names = ("text_a_column", "text_b_column", "label_column")
  columns = tables.parse_columns(
    file_format, (text_a_column, text_b_column, label_column)
  )
  text_a, text_b, label = columns
  if text_a is None or label is None:
    raise ValueError("`text_a_column` and `label_column` cannot be empty.")
  metrics = {
    "classification": ("macro_f1",),
    "regression": ("pearson", "spearman"),
    "multilabel": ("micro_f1", "macro_f1"),
  }
  return FileLayout(
    name="own data",
    labels=() if problem_type == "regression" else None,
    metrics=metrics[problem_type],
    splits={
      name: Split(f"{name}.{file_format}", name, text_a, text_b, label)
      for name in ("train", "dev", "test")
    },
    problem_type=problem_type,
    file_format=file_format,
    settings={c: n for c, n in zip(columns, names) if c is not None},
  )


def hold_out(rows: Sequence[Row], fraction: float, seed: int) -> list[int]:
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


def read_rows(
  data_dir: str, layout: FileLayout, labels: LabelSpec | None, name: str
) -> list[Row]:
  """Reads one split of a task; ignores blank lines.

  A row has `id`, `text`, `text_b` of a pair, and `label`: a name, the number of
  a regression, or the names that apply in multilabel. A row without a label in
  a test file has none.

  Raises ValueError with file and line for a faulty row; also for a missing
  column, or if the file holds no row. If `labels` is None, any label is valid.
  """
  split, is_test = layout.splits[name], name == "test"
  only, value = split.only or (None, None)
  label = [] if split.label is None else [split.label]
  texts = (split.text_a, split.text_b, split.guid, only)
  needed = [column for column in texts if column is not None]
  needed += [] if is_test else label

  def convert(line: int, cells: tables.Row) -> Row | None:
    if only is not None and tables.get_cell(cells, only) != value:
      return None
    end = line - 1
    if split.guid is not None:
      end = tables.get_cell(cells, split.guid)
    text = tables.get_text(cells, split.text_a, may_be_empty=is_test)
    row: Row = {"id": f"{split.prefix}-{end}", "text": text}
    if split.text_b is not None:
      # An empty second text means a single text, as in the 2018 release.
      row["text_b"] = tables.get_text(cells, split.text_b, may_be_empty=True)
    if split.label is not None:
      try:
        cell = tables.get_cell(cells, split.label)
        row["label"] = read_label(cell, layout, labels)
      except BadRowError:
        if not is_test:
          raise
    return row

  path = os.path.join(data_dir, split.file)
  # A test file may have labels, which its predictions then show.
  table = tables.Table(
    path, layout.file_format, needed, layout.settings, optional=label
  )
  rows = list(tables.read(table, convert))
  if not rows:
    wanted = f" with {only} {value!r}" if split.only else ""
    raise ValueError(f"{path} holds no examples{wanted}.")
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
  value: Any, layout: FileLayout, labels: LabelSpec | None
) -> str | float | list[str]:
  """Parses a cell or a Python value; raises tables.BadRowError if no label."""
  if layout.problem_type == "regression":
    low, high = layout.number_range or (-math.inf, math.inf)
    try:  # Other types, such as NumPy's datetime64, are not numbers.
      is_real = isinstance(value, str | numbers.Real)
      number = float(value) if is_real else math.nan
    except ValueError:
      number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
      raise BadRowError(f"label {value!r} is not a number from {low} to {high}")
    return number
  if layout.problem_type == "classification":
    return _read_name(value, layout, labels)
  if isinstance(value, str):
    value = [name for name in value.split(LABEL_SEPARATOR) if name.strip()]
  if not isinstance(value, list):
    raise BadRowError(f"label {value!r} is not a list of labels")
  names = [_read_name(name, layout, labels) for name in value]
  if len(set(names)) < len(names):
    raise BadRowError(
      f"label {value!r} has a label twice; give the names of the labels that "
      "apply, not a 0 or 1 for each label"
    )
  return names


def _read_name(value: Any, layout: FileLayout, labels: LabelSpec | None) -> str:
  is_number = isinstance(value, int | float) and math.isfinite(value)
  if not (is_number or isinstance(value, str)):
    raise BadRowError(
      f"label {value!r} is not text, a finite number, true or false"
    )
  name = value if isinstance(value, str) else json.dumps(value)
  name = layout.label_spellings.get(name.strip(), name.strip())
  if not name:
    raise BadRowError("the label is empty")
  if not tables.is_unicode(name):
    raise BadRowError(f"label {value!r} has a lone surrogate")
  if labels is not None and name not in labels.labels:
    raise BadRowError(labels.unknown_label(value))
  return name
