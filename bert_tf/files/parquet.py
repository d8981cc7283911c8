"""Reads Parquet files. Imports the package pyarrow only to read a file."""

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.files import compression, errors, messages, packages, shard_files

# File names of a split, in Hugging Face's data sets or in the user's own data.
_PATTERNS = ("{}-[0-9]*-of-*.parquet", "{}.parquet", "{}/*.parquet")

_BATCH_ROWS = 256


def check_installed() -> None:
  """Raises ImportError if pyarrow is missing."""
  with packages.needs_extra("reading Parquet", extra="parquet"):
    import pyarrow  # noqa: F401


def find_split(folder: str, *names: str) -> list[str]:
  """Returns the Parquet files of the first of `names` that has files, or [].

  They are shards such as NAME-00000-of-00001.parquet, NAME.parquet, or the
  files in a folder NAME.

  Raises:
    ValueError: as `shard_files.expand`, such as for a missing shard.
  """
  for name in names:
    for pattern in _PATTERNS:
      path = os.path.join(glob.escape(folder), pattern.format(name))
      if files := shard_files.expand(path):
        return files
  return []


def read_rows(
  path: str,
  columns: Sequence[str],
  settings: Mapping[Any, str] | None = None,
  optional: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
  """Yields some columns of the rows of a file.

  Replaces class ids by the names that Hugging Face's package datasets stores.
  `settings` are the settings that name the columns, for errors; the file may
  lack `optional` columns.

  Raises:
    ValueError: if the file is damaged, or if it lacks a column.
    ImportError: if pyarrow is missing.
  """
  check_installed()
  from pyarrow import parquet

  with compression.open_file(path) as opened:
    with errors.reading(path):
      file = parquet.ParquetFile(opened)
    names = file.schema_arrow.names
    if fault := messages.missing_columns(columns, names, settings):
      raise ValueError(f"{path} has {fault}")
    columns = [*columns, *(name for name in optional if name in names)]
    classes = _class_names(file.schema_arrow.metadata or {}, columns)
    with errors.reading(path):
      for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
        for row in batch.to_pylist():
          for column, labels in classes.items():
            if isinstance(row[column], int) and 0 <= row[column] < len(labels):
              row[column] = labels[row[column]]
          yield row


def _class_names(
  metadata: Mapping[bytes, bytes], columns: Sequence[str]
) -> dict[str, list[str]]:
  try:
    features = json.loads(metadata[b"huggingface"])["info"]["features"]
    return {
      column: features[column]["names"]
      for column in columns
      if features.get(column, {}).get("_type") == "ClassLabel"
    }
  except (KeyError, TypeError, AttributeError, ValueError):
    return {}
