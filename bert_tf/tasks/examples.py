"""Rows of TSV, CSV and JSON-lines files as labelled texts.

What a row lacks is an error that names the file, the line and what was found.
"""

import csv
import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from bert_tf import corpus

FILE_FORMATS = ("tsv", "csv", "jsonl")

# Between the labels of one multilabel cell.
LABEL_SEPARATOR = "|"

# What is reported of one's own data beside the accuracy.
_OWN_METRICS = {
  "classification": ("macro_f1",),
  "regression": ("pearson", "spearman"),
  "multilabel": ("micro_f1", "macro_f1"),
}

# Labels or columns that an error lists.
_MAX_LISTED = 20

# A column by its name in the header, or by its number from 0 in a file that
# has none.
Column = str | int
Row = Mapping[str, Any] | Sequence[str]


@dataclasses.dataclass(frozen=True)
class InputExample:
  """A text, or a pair of texts, to classify.

  Attributes:
    guid: names the example: its part and its line, or its index there.
    text_a: the text, or the first of a pair.
    text_b: the second of a pair, or None.
    label: the class; a number in a regression; the labels that apply in
      multilabel; None if it is not known.
  """

  guid: str
  text_a: str
  text_b: str | None = None
  label: str | float | tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Split:
  """One part of a task: its file and the columns that are read.

  Attributes:
    file: path below the task's folder.
    prefix: of the guids.
    text_a: column of the text, or of the first of a pair.
    text_b: column of the second, or None.
    label: column of the label, or None where there is none.
    guid: column that the guids end in; None for the line, counted from 0.
    num_columns: of a file without header; None if any number will do.
    only: (column, value) of the rows that are read; None for all.
  """

  file: str
  prefix: str
  text_a: Column
  text_b: Column | None = None
  label: Column | None = None
  guid: Column | None = None
  num_columns: int | None = None
  only: tuple[Column, str] | None = None

  def columns(self) -> list[Column]:
    """Returns the columns that are read."""
    only = self.only[0] if self.only else None
    columns = (self.text_a, self.text_b, self.label, self.guid, only)
    return [column for column in columns if column is not None]


@dataclasses.dataclass(frozen=True)
class Task:
  """What is classified, and where its examples are.

  Attributes:
    name: as its authors write it.
    labels: in the order of their ids; None if the training file shows them;
      () in a regression.
    metrics: names in classification_results.METRICS of what is reported
      beside the accuracy.
    train: what is trained on, or None.
    dev: what is evaluated on, or None.
    test: what is predicted, or None.
    problem_type: one of heads.PROBLEM_TYPES.
    number_range: least and largest number of a regression, or None.
    label_spellings: other spellings of labels.
    submission: the file that GLUE takes, or None.
    file_format: one of FILE_FORMATS.
  """

  name: str
  labels: tuple[str, ...] | None
  metrics: tuple[str, ...]
  train: Split | None
  dev: Split | None
  test: Split | None
  problem_type: str = "classification"
  number_range: tuple[float, float] | None = None
  label_spellings: Mapping[str, str] = dataclasses.field(default_factory=dict)
  submission: str | None = None
  file_format: str = "tsv"


class _BadRowError(ValueError):
  """What is wrong with one row."""


def own_task(
  file_format: str,
  problem_type: str,
  text_a_column: str,
  text_b_column: str | None,
  label_column: str,
) -> Task:
  """Returns the task of train, dev and test files of one's own.

  Args:
    file_format: one of FILE_FORMATS; the files end in it.
    problem_type: one of heads.PROBLEM_TYPES.
    text_a_column: name of a column of the header, key of the JSON objects, or
      number of a column from 0 of files without header.
    text_b_column: of the second text of a pair, or None.
    label_column: of the label, which the test file need not have.

  Raises:
    ValueError: for numbers and names together, a number in JSON lines, or no
      column of the text or the label.
  """
  text_a, text_b, label = _own_columns(
    file_format, (text_a_column, text_b_column, label_column)
  )
  return Task(
    name="own data",
    labels=() if problem_type == "regression" else None,
    metrics=_OWN_METRICS[problem_type],
    train=Split(f"train.{file_format}", "train", text_a, text_b, label),
    dev=Split(f"dev.{file_format}", "dev", text_a, text_b, label),
    test=Split(f"test.{file_format}", "test", text_a, text_b),
    problem_type=problem_type,
    file_format=file_format,
  )


def _own_columns(
  file_format: str, given: Sequence[str | None]
) -> list[Column | None]:
  """Returns the columns of text, second text and label; checks them."""
  if not given[0] or not given[2]:
    raise ValueError("--text_a_column and --label_column cannot be empty.")
  are_numbers = {column.isdecimal() for column in given if column}
  if len(are_numbers) == 2 or (True in are_numbers and file_format == "jsonl"):
    raise ValueError(
      f"columns {', '.join(map(str, given))}: give the names of a header, or "
      "for tsv and csv files without one the numbers from 0, not both."
    )
  return [
    int(column) if column and column.isdecimal() else column or None
    for column in given
  ]


def check_files(data_dir: str, splits: Sequence[Split], name: str) -> None:
  """Raises ValueError naming every file that is not there."""
  missing = [
    split.file
    for split in splits
    if not os.path.isfile(os.path.join(data_dir, split.file))
  ]
  if missing:
    raise ValueError(
      f"{data_dir} has no {', no '.join(missing)}; set --data_dir to the "
      f"folder of {name}."
    )


def read_examples(
  data_dir: str, split: Split, task: Task, skip_bad_rows: bool = False
) -> list[InputExample]:
  """Reads one part of a task; blank lines are no rows.

  Args:
    data_dir: folder of the task.
    split: which part.
    task: its labels are what a label may be; any if they are None.
    skip_bad_rows: whether a row that is at fault is left out, counted and
      logged, instead of being an error.

  Raises:
    ValueError: naming file and line: the header lacks a column, a row has
      other columns, an empty text, or a label that is none of the task's;
      or if the file holds no example.
  """
  path = os.path.join(data_dir, split.file)
  examples = []
  faults = []
  for line, row in _rows(path, split, task):
    try:
      if isinstance(row, _BadRowError):
        raise row
      if split.only and _value(row, split.only[0]) != split.only[1]:
        continue
      examples.append(_example(row, line, split, task))
    except _BadRowError as error:
      fault = f"{path}:{line}: {error}"
      if not skip_bad_rows:
        raise ValueError(fault) from None
      faults.append(fault)
  if faults:
    logging.warning(
      "Skipped %d bad rows of %s; the first: %s", len(faults), path, faults[0]
    )
  if not examples:
    wanted = f" with {split.only[0]} {split.only[1]!r}" if split.only else ""
    raise ValueError(f"{path} holds no example{wanted}.")
  return examples


def infer_labels(examples: Sequence[InputExample]) -> tuple[str, ...]:
  """Returns the labels that occur: numbers by value, else by alphabet."""
  labels = set()
  for example in examples:
    is_one = isinstance(example.label, str)
    labels.update([example.label] if is_one else example.label)
  if all(label.isdecimal() for label in labels):
    return tuple(sorted(labels, key=lambda label: (int(label), label)))
  return tuple(sorted(labels))


def _rows(
  path: str, split: Split, task: Task
) -> Iterator[tuple[int, Row | _BadRowError]]:
  """Yields the number of a line, from 1, and its row or what is wrong."""
  if task.file_format == "jsonl":
    for line, text in enumerate(corpus.read_lines(path), 1):
      if text.strip():
        yield line, _json_row(text)
    return
  cells = _csv_cells(path) if task.file_format == "csv" else _tsv_cells(path)
  if isinstance(split.text_a, int):
    for line, row in cells:
      if split.num_columns and len(row) != split.num_columns:
        yield line, _wrong_count(row, split.num_columns)
      else:
        yield line, row
    return
  line, header = next(cells, (1, []))
  _check_header(f"{path}:{line}", header, split, task)
  for line, row in cells:
    if len(row) != len(header):
      yield line, _wrong_count(row, len(header))
    else:
      yield line, dict(zip(header, row))


def _tsv_cells(path: str) -> Iterator[tuple[int, list[str]]]:
  """Yields line and cells; a quotation mark means nothing."""
  for line, text in enumerate(corpus.read_lines(path), 1):
    text = text.removesuffix("\r")
    if line == 1:
      text = text.removeprefix("\ufeff")
    if text:
      yield line, text.split("\t")


def _csv_cells(path: str) -> Iterator[tuple[int, list[str]]]:
  """Yields line and cells; a quoted cell may go over several lines."""
  lines = (text + "\n" for text in corpus.read_lines(path))
  rows = csv.reader(lines, strict=True)
  try:
    is_first = True
    for row in rows:
      if row and is_first:
        row[0] = row[0].removeprefix("\ufeff")
      if row:
        yield rows.line_num, row
      is_first = False
  except csv.Error as error:
    raise ValueError(
      f"{path}:{rows.line_num}: not CSV ({error}); mend its quotation marks."
    ) from None


def _json_row(text: str) -> Row | _BadRowError:
  """Returns the object of a line, or what is wrong with it."""
  try:
    row = json.loads(text.removeprefix("\ufeff"))
  except ValueError as error:
    return _BadRowError(f"not JSON ({error}): {_cut(text)}")
  if not isinstance(row, dict):
    return _BadRowError(f"not a JSON object: {_cut(text)}")
  return row


def _check_header(
  where: str, header: Sequence[str], split: Split, task: Task
) -> None:
  """Raises ValueError unless each column is there once."""
  wrong = [name for name in split.columns() if header.count(name) != 1]
  if wrong:
    raise ValueError(
      f"{where}: no header of {task.name}, which has one column "
      f"{', one '.join(map(repr, wrong))}; found: {_listed(header)}."
    )


def _wrong_count(row: Sequence[str], expected: int) -> _BadRowError:
  return _BadRowError(
    f"{len(row)} columns instead of {expected}: {_cut(' | '.join(row))}"
  )


def _example(row: Row, line: int, split: Split, task: Task) -> InputExample:
  """Returns the example of a row; raises _BadRowError."""
  end = line - 1 if split.guid is None else _value(row, split.guid)
  text_b = label = None
  if split.text_b is not None:
    text_b = _text(row, split.text_b)
  if split.label is not None:
    label = _label(_value(row, split.label), task)
  return InputExample(
    f"{split.prefix}-{end}", _text(row, split.text_a), text_b, label
  )


def _value(row: Row, column: Column) -> Any:
  """Returns a cell; raises _BadRowError where there is none."""
  try:
    return row[column]
  except (KeyError, IndexError):
    there = _listed(list(row)) if isinstance(row, dict) else len(row)
    raise _BadRowError(f"no column {column}; found: {there}") from None


def _text(row: Row, column: Column) -> str:
  text = _value(row, column)
  if not isinstance(text, str) or not text.strip():
    raise _BadRowError(f"column {column} is no text, but {text!r}")
  return text


def _label(value: Any, task: Task) -> str | float | tuple[str, ...]:
  """Returns the label of a cell; raises _BadRowError."""
  if task.problem_type == "regression":
    return _number(value, task)
  if task.problem_type == "multilabel":
    if isinstance(value, str):
      value = [name for name in value.split(LABEL_SEPARATOR) if name.strip()]
    if not isinstance(value, list):
      raise _BadRowError(f"label {value!r} is no list of labels")
    return tuple(_class(name, task) for name in value)
  return _class(value, task)


def _class(value: Any, task: Task) -> str:
  """Returns one label of the set; raises _BadRowError."""
  if isinstance(value, dict | list | None):
    raise _BadRowError(f"label {value!r} is no label")
  name = value if isinstance(value, str) else json.dumps(value)
  name = task.label_spellings.get(name.strip(), name.strip())
  if not name:
    raise _BadRowError("the label is empty")
  if task.labels is not None and name not in task.labels:
    raise _BadRowError(
      f"label {value!r} is none of the task's: {_listed(task.labels)}"
    )
  return name


def _number(value: Any, task: Task) -> float:
  """Returns the number of a regression; raises _BadRowError."""
  try:
    number = float(value)
  except (TypeError, ValueError):
    raise _BadRowError(f"label {value!r} is no number") from None
  low, high = task.number_range or (-math.inf, math.inf)
  if not math.isfinite(number) or not low <= number <= high:
    raise _BadRowError(f"label {value!r} is not between {low} and {high}")
  return number


def _listed(names: Sequence[str]) -> str:
  more = f" and {len(names) - _MAX_LISTED} more"
  listed = ", ".join(names[:_MAX_LISTED])
  return listed + (more if len(names) > _MAX_LISTED else "")


def _cut(text: str) -> str:
  return text if len(text) <= 80 else f"{text[:77]}..."
