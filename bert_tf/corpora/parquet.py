"""Reads the text column of Parquet files, some rows at a time."""

from collections.abc import Iterator
from typing import Any

from bert_tf.files import compression, errors

_BATCH_ROWS = 256


def texts(path: str, column: str) -> Iterator[str]:
  """Yields the text of each row; that of a null is empty.

  Raises:
    ValueError: if it is no whole Parquet file, lacks the column (naming those
      it has), or the column is no text.
    ImportError: if pyarrow is missing.
  """
  with errors.needs_extra("reading Parquet", extra="corpus"):
    import pyarrow as pa
    from pyarrow import parquet
  with compression.opened(path) as opened:
    try:
      file = parquet.ParquetFile(opened)
      _check_column(path, column, file.schema_arrow, pa)
      for batch in file.iter_batches(_BATCH_ROWS, columns=[column]):
        for text in batch.column(0).to_pylist():
          yield text or ""
    except UnicodeDecodeError as error:
      raise ValueError(
        f"{path}: column {column} is not UTF-8 ({error}); write it again."
      ) from None
    except pa.ArrowException as error:
      reason = str(error).splitlines()[0]
      raise ValueError(
        f"{path}: no whole Parquet file ({reason}); fetch it again."
      ) from None


def _check_column(path: str, column: str, schema: Any, pa: Any) -> None:
  """Raises ValueError unless the schema has the column, of text."""
  names = schema.names
  if names.count(column) != 1:
    raise ValueError(
      f"{path}: no column {column}; found: {errors.listed(names)}. Give one of "
      f"them as `text_column`."
    )
  kind = schema.field(column).type
  if pa.types.is_dictionary(kind):
    kind = kind.value_type
  is_view = getattr(pa.types, "is_string_view", lambda kind: False)
  is_text = (pa.types.is_string, pa.types.is_large_string, is_view)
  if not any(check(kind) for check in is_text):
    raise ValueError(
      f"{path}: column {column} is no text, but {kind}; found: "
      f"{errors.listed(names)}. Give another `text_column`."
    )
