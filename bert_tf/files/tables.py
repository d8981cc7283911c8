"""Reads rows of TSV, CSV, JSON-lines and Parquet files."""

import csv
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from bert_tf.files import errors, messages, packages, text_lines

# A name in the header, or a number from 0 in a file without a header.
Column = str | int
Row = Mapping[str, Any] | Sequence[str]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Table:
  """A file of rows, and the columns to read."""

  path: str
  file_format: str  # "tsv", "csv", "jsonl" or "parquet".
  columns: Sequence[Column]  # Columns to read, all by name or all by number.
  # The setting that names a column, by column, for errors.
  settings: Mapping[Column, str] = dataclasses.field(default_factory=dict)
  optional: Sequence[Column] = ()  # Columns to read if the file has them.


class BadRowError(ValueError):
  """A row is faulty; the message describes the fault."""


def read(table: Table, convert: Callable[[int, Row], T | None]) -> Iterator[T]:
  """Yields the converted rows of a file. Skips blank lines.

  Args:
    table: the file.
    convert: takes the number of a line (in Parquet of a row), from 1, and its
      row. Returns None to leave out the row, or raises BadRowError.

  Raises:
    ValueError: if the header lacks a column or a row is faulty. Names the file
      and the line.
  """
  readers = {"parquet": _read_parquet, "jsonl": _read_json_lines}
  for line, row in readers.get(table.file_format, _read_csv)(table):
    try:
      converted = convert(line, row)
    except BadRowError as error:
      raise ValueError(f"{table.path}:{line}: {error}.") from None
    if converted is not None:
      yield converted


def parse_columns(
  file_format: str, columns: Sequence[str | None]
) -> list[Column | None]:
  """Parses the columns of flags: names in the header, or numbers from 0.

  Raises:
    ValueError: for numbers together with names, or numbers in jsonl or parquet.
  """
  are_numbers = {column.isdecimal() for column in columns if column}
  has_names = file_format in ("jsonl", "parquet")
  if len(are_numbers) == 2 or (True in are_numbers and has_names):
    raise ValueError(
      f"columns {', '.join(map(str, columns))} must all be names or, in tsv "
      "and csv files without a header, numbers from 0."
    )
  return [
    int(column) if column and column.isdecimal() else column or None
    for column in columns
  ]


def is_unicode(text: str) -> bool:
  """Returns whether UTF-8 can hold a text, that is, it has no surrogates."""
  try:
    text.encode()
  except UnicodeEncodeError:
    return False
  return True


def get_cell(row: Row, column: Column) -> Any:
  """Gets a cell; raises BadRowError if it is missing."""
  cells: Any = row
  try:
    return cells[column]
  except (KeyError, IndexError):
    raise BadRowError(
      f"no column {column}; the row has {len(row)} columns"
    ) from None


def get_text(row: Row, column: Column, may_be_empty: bool = False) -> str:
  """Gets a cell; raises BadRowError unless it is text, usually non-blank."""
  cell = get_cell(row, column)
  if may_be_empty and cell is None:
    return ""
  if not isinstance(cell, str):
    raise BadRowError(f"{cell!r} is not a text (column {column!r})")
  if not (may_be_empty or cell.strip()):
    raise BadRowError(f"the text is empty (column {column!r})")
  return cell


def _check_columns(table: Table, names: Sequence[str], subject: str) -> None:
  """Raises ValueError for the first column that is missing or there twice."""
  for column in table.columns:
    if (count := names.count(str(column))) != 1:
      fault = f"{count} columns" if count else "no column"
      setting = table.settings.get(column)
      suffix = f" (`{setting}`)" if setting else ""
      others = messages.join_names(names) or "none"
      raise ValueError(
        f"{subject} {fault} {column!r}{suffix}. Its columns: {others}."
      )


def _read_json_lines(table: Table) -> Iterator[tuple[int, Row]]:
  for line, content in enumerate(text_lines.read_lines(table.path), 1):
    if not content.strip():
      continue
    values, fault = None, "not a JSON object"
    try:
      values = json.loads(content)
      if "\\ud" in content.lower():  # Half a character, a surrogate, fails.
        json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
      values, fault = None, f"not JSON ({error})"
    where = f"{table.path}:{line}:"
    if not isinstance(values, dict):
      raise ValueError(f"{where} {fault}: {messages.shorten(content)}.")
    _check_columns(table, list(values), where)
    yield line, values


def _read_csv(table: Table) -> Iterator[tuple[int, Row]]:
  """Yields the rows of CSV and TSV files, without the header."""
  rows = _read_cells(table, _find_delimiter(table))
  has_header = isinstance(table.columns[0], str)
  line, first = next(rows, (1, []))
  if has_header:
    _check_columns(table, first, f"{table.path} has")
  elif first:
    yield line, first
  for line, row in rows:
    if len(row) != len(first):
      content = messages.shorten(" | ".join(row))
      raise ValueError(
        f"{table.path}:{line}: {len(row)} columns instead of {len(first)}: "
        f"{content}."
      )
    yield line, dict(zip(first, row)) if has_header else row


def _find_delimiter(table: Table) -> str:
  # The delimiter with which the first line has the columns, or the format's
  # default. Excel writes semicolons where the comma is the decimal sign.
  default = "\t" if table.file_format == "tsv" else ","
  sizes = {}
  for delimiter in default + "\t,;|":
    # Quotation marks look wrong between other delimiters than the file's.
    _, first = next(_read_cells(table, delimiter, strict=False), (1, []))
    columns = first if isinstance(table.columns[0], str) else range(len(first))
    if set(table.columns).issubset(columns):
      return delimiter
    sizes[delimiter] = len(first)
  # The error about a missing column lists those that the file seems to have.
  return max(sizes, key=lambda delimiter: sizes[delimiter])


def _read_cells(
  table: Table, delimiter: str, strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
  is_tsv = table.file_format == "tsv" and delimiter == "\t"
  quotechar = None if is_tsv else '"'  # Quotation marks in TSV are text.
  cells = csv_cells(table.path, delimiter, quotechar, strict)
  return ((line, row) for line, row in cells if row)


def csv_cells(
  path: str,
  delimiter: str = ",",
  quotechar: str | None = '"',
  strict: bool = True,
) -> Iterator[tuple[int, list[str]]]:
  """Yields (number of the last line, cells) of each row, as csv.reader.

  Raises:
    ValueError: names the file and the line that is not UTF-8 or, if `strict`,
      not CSV.
  """
  csv.field_size_limit(2**31 - 1)  # The most that every system accepts.
  rows = csv.reader(
    (line + "\n" for line in text_lines.read_lines(path)),
    delimiter=delimiter,
    quotechar=quotechar,
    strict=strict,
  )
  try:
    yield from ((rows.line_num, row) for row in rows)
  except csv.Error as error:
    raise ValueError(f"{path}:{rows.line_num}: not CSV ({error}).") from None


def check_parquet_installed() -> None:
  """Raises ImportError if pyarrow is missing."""
  with packages.needs_extra("reading Parquet", extra="parquet"):
    import pyarrow  # noqa: F401


def _read_parquet(table: Table) -> Iterator[tuple[int, Row]]:
  """Yields rows; class ids become the names that Hugging Face stores."""
  check_parquet_installed()
  from pyarrow import parquet

  with text_lines.open_decompressed(table.path) as opened:
    with errors.reading(table.path):
      file = parquet.ParquetFile(opened)
    names = file.schema_arrow.names
    _check_columns(table, names, f"{table.path} has")
    columns = {*table.columns, *(n for n in table.optional if n in names)}
    try:
      metadata = file.schema_arrow.metadata[b"huggingface"]
      features = json.loads(metadata)["info"]["features"]
    except (KeyError, TypeError, ValueError):
      features = {}
    classes = {
      column: features[column]["names"]
      for column in columns
      if features.get(column, {}).get("_type") == "ClassLabel"
    }
    batches = file.iter_batches(256, columns=[*columns])
    rows = (row for batch in batches for row in batch.to_pylist())
    with errors.reading(table.path):
      for number, row in enumerate(rows, 1):
        for column, labels in classes.items():
          if isinstance(row[column], int) and 0 <= row[column] < len(labels):
            row[column] = labels[row[column]]
        yield number, row
