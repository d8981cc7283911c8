"""Reads Parquet files. Imports the package pyarrow only to read a file."""

import contextlib
import glob
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bert_tf.files import compression, errors, paths

# File names of a split, in Hugging Face's data sets or in the user's own data.
_PATTERNS = ("{}-*-of-*.parquet", "{}.parquet", "{}/*.parquet")
_SHARD = re.compile(r"(.*-)(\d{5})-of-(\d{5})\.parquet")

_BATCH_ROWS = 256


def check_installed() -> None:
  """Raises ImportError if pyarrow is missing."""
  with errors.needs_extra("reading Parquet", extra="parquet"):
    import pyarrow  # noqa: F401


def find_split(folder: str, *names: str) -> list[str]:
  """Returns the Parquet files of a split; [] if no shard exists.

  Finds NAME.parquet, the files in a folder NAME, and shards such as
  NAME-00000-of-00001.parquet.

  Args:
    folder: the folder to search.
    *names: possible names of the split. Returns the files of the first name
      that has files.

  Raises:
    ValueError: if a shard is missing.
  """
  for name in names:
    for pattern in _PATTERNS:
      path = os.path.join(glob.escape(folder), pattern.format(name))
      if files := paths.matches(path):
        _check_shards(files)
        return files
  return []


def _check_shards(files: Sequence[str]) -> None:
  """Raises ValueError if a shard is missing, or if shards of two sets mix."""
  sets: dict[tuple[str, str], str] = {}  # The first file of each set.
  for file in files:
    if shard := _SHARD.fullmatch(file):
      sets.setdefault((shard[1], shard[3]), file)
  if len(sets) > 1:
    raise ValueError(
      f"{' and '.join(sorted(sets.values())[:2])} belong to different sets of "
      "shards; remove the files of one."
    )
  for (start, count), first in sets.items():
    for index in range(int(count)):
      path = f"{start}{index:05d}-of-{count}.parquet"
      if path not in files:
        raise ValueError(
          f"there is {first}, but no {path}; fetch this file, too."
        )


def read_rows(
  path: str, columns: Sequence[str], settings: Mapping[Any, str] | None = None
) -> Iterator[dict[str, Any]]:
  """Yields the rows of a file, with some of its columns.

  Replaces class ids by class names if the file names the classes, as Hugging
  Face's package datasets does.

  Args:
    path: the file.
    columns: names of the columns.
    settings: the setting that names a column, by column, for errors.

  Raises:
    ValueError: if the file is damaged, or if it lacks a column.
    ImportError: if pyarrow is missing.
  """

  def check(schema: Any) -> None:
    if fault := errors.missing_columns(columns, schema.names, settings):
      raise ValueError(f"{path} has {fault}")

  with _open(path, columns, check) as file:
    classes = _class_names(file.schema_arrow.metadata or {}, columns)
    for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns)):
      for row in batch.to_pylist():
        for column, names in classes.items():
          if isinstance(row[column], int) and 0 <= row[column] < len(names):
            row[column] = names[row[column]]
        yield row


def read_texts(path: str, column: str, advice: str) -> Iterator[str]:
  """Yields the texts of a column; "" for null.

  Args:
    path: the file.
    column: name of the column.
    advice: text to append to the error for a column that is missing or holds no
      text.

  Raises:
    ValueError: if the file is damaged, or if it has no such column of text.
    ImportError: if pyarrow is missing.
  """

  def check(schema: Any) -> None:
    if fault := errors.missing_columns([column], schema.names):
      raise ValueError(f"{path} has {fault}{advice}")
    texts = [field.name for field in schema if _is_text(field.type)]
    if column not in texts:
      raise ValueError(
        f"{path}: column {column} is not text, but "
        f"{schema.field(column).type}; columns of text: "
        f"{errors.join_names(texts) or 'none'}.{advice}"
      )

  with _open(path, (column,), check) as file:
    for batch in file.iter_batches(_BATCH_ROWS, columns=[column]):
      for text in batch.column(0).to_pylist():
        yield text or ""


@contextlib.contextmanager
def _open(
  path: str, columns: Sequence[str], check: Callable[[Any], None]
) -> Iterator[Any]:
  """Opens a Parquet file; turns pyarrow's errors in this scope into ValueError.

  Yields the pyarrow.parquet.ParquetFile, after calling `check` with its schema.
  """
  check_installed()
  import pyarrow as pa
  from pyarrow import parquet

  with compression.open_file(path) as opened:
    try:
      file = parquet.ParquetFile(opened)
      check(file.schema_arrow)
      yield file
    except UnicodeDecodeError as error:
      raise ValueError(
        f"{path}: column {', '.join(columns)} is not UTF-8 ({error}); write it "
        "again."
      ) from None
    except pa.ArrowException as error:
      reason = str(error).splitlines()[0]
      raise ValueError(
        f"{path}: not a whole Parquet file ({reason}); fetch it again."
      ) from None


def _is_text(kind: Any) -> bool:
  """Returns whether an Arrow type holds text, perhaps dictionary-encoded."""
  import pyarrow as pa

  if pa.types.is_dictionary(kind):
    kind = kind.value_type
  is_view = getattr(pa.types, "is_string_view", lambda kind: False)
  is_text = (pa.types.is_string, pa.types.is_large_string, is_view)
  return any(check(kind) for check in is_text)


def _class_names(
  metadata: Mapping[bytes, bytes], columns: Sequence[str]
) -> dict[str, list[str]]:
  """Returns the class names by column, from metadata of the package datasets.

  Leaves out columns without class names. Ignores metadata of another structure.
  """
  try:
    features = json.loads(metadata[b"huggingface"])["info"]["features"]
    return {
      column: features[column]["names"]
      for column in columns
      if features.get(column, {}).get("_type") == "ClassLabel"
    }
  except (KeyError, TypeError, AttributeError, ValueError):
    return {}
