"""Reads rows of TSV, CSV and JSON-lines files.

A faulty row raises an error that names the file, the line and what was found.
"""

import csv
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from absl import logging

from bert_tf.files import errors, text_lines

# A column by its name in the header, or by its number from 0 in a file that
# has none.
Column = str | int
Row = Mapping[str, Any] | Sequence[str]

T = TypeVar("T")

# The most that the package csv takes on every system; cells of the other
# formats have no limit.
_MAX_CELL_CHARS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Table:
  """A file of rows."""

  path: str
  file_format: str  # "tsv", "csv" or "jsonl".
  # The columns to read, all by name or all by number.
  columns: Sequence[Column]
  task: str  # Name of the task, for errors.
  # Columns of a file without header; None allows any number.
  num_columns: int | None = None


class Examples(list[T]):
  """Examples of a file, and how many more it has that are not used."""

  num_dropped: int = 0


class BadRowError(ValueError):
  """Says what is wrong with one row."""


def read(
  table: Table,
  convert: Callable[[int, Row], T | None],
  skip_bad_rows: bool = False,
) -> Examples[T]:
  """Returns the converted rows of a file; blank lines are skipped.

  Args:
    table: the file.
    convert: takes the number of a line, from 1, and its row; returns None to
      leave the row out and raises BadRowError for a faulty one.
    skip_bad_rows: whether faulty rows are logged instead of raised.

  Raises:
    ValueError: naming file and line: the header lacks a column, a row has other
      columns, or what `convert` raises.
  """
  found: Examples[T] = Examples()
  faults = []
  for line, row in rows(table):
    try:
      if isinstance(row, BadRowError):
        raise row
      value_of_row = convert(line, row)
      if value_of_row is not None:
        found.append(value_of_row)
    except BadRowError as error:
      fault = f"{table.path}:{line}: {error}"
      if not skip_bad_rows:
        raise ValueError(fault) from None
      faults.append(fault)
  found.num_dropped = len(faults)
  if faults:
    logging.warning(
      "Skipped %d bad rows of %s; the first: %s",
      len(faults),
      table.path,
      faults[0],
    )
  return found


def columns(
  file_format: str, given: Sequence[str | None]
) -> list[Column | None]:
  """Parses columns as flags give them: names of a header, or numbers from 0.

  Raises:
    ValueError: for numbers and names together, or a number in JSON lines.
  """
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


def is_unicode(text: str) -> bool:
  """Returns whether UTF-8 can hold a text: no half of a surrogate pair."""
  try:
    text.encode()
  except UnicodeEncodeError:
    return False
  return True


def value(row: Row, column: Column) -> Any:
  """Returns a cell; raises BadRowError if it is missing."""
  cells: Any = row
  try:
    return cells[column]
  except (KeyError, IndexError):
    there = errors.listed(list(row)) if isinstance(row, dict) else len(row)
    raise BadRowError(f"no column {column}; found: {there}") from None


def text(row: Row, column: Column) -> str:
  """Returns a cell; raises BadRowError unless it is text and not blank."""
  found = value(row, column)
  if not isinstance(found, str) or not found.strip():
    raise BadRowError(f"column {column} is no text, but {found!r}")
  return found


def rows(table: Table) -> Iterator[tuple[int, Row | BadRowError]]:
  """Yields the number of each line, from 1, and its row or its fault."""
  if table.file_format == "jsonl":
    for line, content in enumerate(text_lines.read_lines(table.path), 1):
      if content.strip():
        yield line, _json_row(content)
    return
  read_cells = csv_cells if table.file_format == "csv" else _tsv_cells
  cells = ((line, row) for line, row in read_cells(table.path) if row)
  header, count = None, table.num_columns
  if not isinstance(table.columns[0], int):
    line, header = next(cells, (1, []))
    _check_header(line, header, table)
    count = len(header)
  for line, row in cells:
    if count and len(row) != count:
      content = errors.shortened(" | ".join(row))
      fault = f"{len(row)} columns instead of {count}: {content}"
      yield line, BadRowError(fault)
    else:
      yield line, dict(zip(header, row)) if header else row


def _tsv_cells(path: str) -> Iterator[tuple[int, list[str]]]:
  """Yields line and cells; quotation marks have no meaning."""
  lines = enumerate(text_lines.read_lines(path), 1)
  return ((number, line.split("\t")) for number, line in lines if line)


def csv_cells(
  path: str,
  delimiter: str = ",",
  quotechar: str | None = '"',
  strict: bool = True,
) -> Iterator[tuple[int, list[str]]]:
  """Yields line and cells, none of a blank line; as the package csv reads them.

  Carriage returns are dropped. A quoted cell may span several lines.

  Raises:
    ValueError: naming file and line: text that is not UTF-8, or, if `strict`,
      quotation marks that have no end.
  """
  csv.field_size_limit(_MAX_CELL_CHARS)
  rows = csv.reader(
    (line + "\n" for line in text_lines.read_lines(path)),
    delimiter=delimiter,
    quotechar=quotechar,
    strict=strict,
  )
  try:
    yield from ((rows.line_num, row) for row in rows)
  except csv.Error as error:
    raise ValueError(
      f"{path}:{rows.line_num}: not CSV ({error}); mend its quotation marks."
    ) from None


def _json_row(content: str) -> Row | BadRowError:
  """Returns the object of a line, or its fault."""
  try:
    row = json.loads(content)
  except (ValueError, RecursionError) as error:
    return BadRowError(f"not JSON ({error}): {errors.shortened(content)}")
  if not isinstance(row, dict):
    return BadRowError(f"not a JSON object: {errors.shortened(content)}")
  # Perhaps half of an escaped character.
  is_suspect = "\\ud" in content.lower()
  if is_suspect and not is_unicode(json.dumps(row, ensure_ascii=False)):
    return BadRowError(
      f"half a character, a surrogate: {errors.shortened(content)}"
    )
  return row


def _check_header(line: int, header: Sequence[str], table: Table) -> None:
  """Raises ValueError unless the header has each column once."""
  wrong = [name for name in table.columns if header.count(name) != 1]
  if wrong:
    raise ValueError(
      f"{table.path}:{line}: no header of {table.task}, which has one column "
      f"{', one '.join(map(repr, wrong))}; found: {errors.listed(header)}."
    )
