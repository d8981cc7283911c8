"""Errors written for users: missing packages, damaged files."""

import contextlib
import difflib
import errno
import os
import pathlib
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

# Root of the checkout, or the folder that contains the installed package.
_ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def needs_extra(purpose: str, extra: str) -> Iterator[None]:
  """Raises an ImportError of this scope with the command that helps."""
  try:
    yield
  except ImportError as error:
    raise ImportError(
      f"{purpose} needs another package ({error}): "
      f"{format_install_command(extra)}"
    ) from error


class OutOfMemoryError(MemoryError):
  """Memory is exhausted; the message names what did not fit and what helps."""


def import_tensorflow_text(purpose: str) -> types.ModuleType:
  """Imports tensorflow-text, which Windows and new versions of Python lack.

  Raises ImportError if it is missing or belongs to another TensorFlow.
  """
  import tensorflow as tf

  try:
    import tensorflow_text
  except (ImportError, tf.errors.OpError) as error:
    requirement = tensorflow_text_requirement(tf.__version__)
    raise ImportError(
      f"{purpose} needs tensorflow-text ({reason(error)}): pip install "
      f"'{requirement}'"
    ) from error
  return tensorflow_text


def tensorflow_text_requirement(version: str) -> str:
  """The tensorflow-text for a version of TensorFlow, as pip reads it.

  2.21.0 cannot be imported: github.com/tensorflow/text/issues/1541.
  """
  return f"tensorflow-text=={'.'.join(version.split('.')[:2])}.*,!=2.21.0"


class DamagedFileError(ValueError):
  """A file or folder that the library for its format cannot read."""


@contextlib.contextmanager
def reading(
  path: str, fault: str = "is truncated or corrupt"
) -> Iterator[None]:
  """Raises errors of a library that reads a file as DamagedFileError.

  TensorFlow, HDF5, safetensors and zipfile raise many types for a damaged file.
  An OSError that names a file stays as it is, and so does a lack of memory.
  """
  try:
    yield
  except (DamagedFileError, ImportError, MemoryError):
    raise
  except Exception as error:
    is_named = isinstance(error, OSError) and error.filename
    if is_named or system_limit(error):
      raise
    why = reason(error).rstrip(".") or type(error).__name__
    raise DamagedFileError(f"{path} {fault}: {why}.") from error


def system_limit(error: Exception) -> int | None:
  """The error number of a full disk, a quota, or too many open files.

  TensorFlow gives only its text, in an error that also means a lack of memory.
  """
  numbers = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE),
  )
  return next((n for n in numbers if os.strerror(n) in str(error)), None)


def format_install_command(extra: str) -> str:
  """The command that installs an extra of this package.

  The name alone would install another project's package in a checkout.
  """
  if (_ROOT / "pyproject.toml").exists():
    return f"pip install -e '{_ROOT}[{extra}]'"
  required = metadata.requires("bert_tf") or []
  marked = [line.split(";") for line in required if ";" in line]
  names = [name.strip() for name, mark in marked if f'"{extra}"' in mark]
  return " ".join(["pip install", *(f"'{name}'" for name in names)])


def join_names(names: Sequence[str], num_shown: int = 20) -> str:
  """Joins the first names for a message, and counts the rest."""
  num_left = len(names) - num_shown
  shown = ", ".join(names[:num_shown])
  return f"{shown} and {num_left} more" if num_left > 0 else shown


def did_you_mean(
  word: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6
) -> str:
  """A hint at the names that resemble a wrong one; "" if none does."""
  close = difflib.get_close_matches(word, sorted(names), most, cutoff)
  return f" Did you mean {', '.join(close)}?" if close else ""


def missing_columns(
  columns: Sequence[Any],
  existing: Sequence[str],
  settings: Mapping[Any, str] | None = None,
) -> str:
  """Describes the columns that a table lacks or has twice; "" for none.

  `settings` has the setting that names a column, by column.
  """
  faults = []
  for column in dict.fromkeys(columns):
    if (count := existing.count(column)) != 1:
      fault = f"{count} columns" if count else "no column"
      setting = (settings or {}).get(column)
      suffix = f" (`{setting}`)" if setting else ""
      faults.append(f"{fault} {column!r}{suffix}")
  if not faults:
    return ""
  names = join_names(existing) or "none"
  return f"{' and '.join(faults)}. Its columns: {names}."


def shorten(text: str, size: int = 80) -> str:
  """Cuts a text for a message to `size` characters."""
  return text if len(text) <= size else f"{text[: size - 3]}..."


def reason(error: Exception) -> str:
  """The reason in an error of TensorFlow, in one line.

  It is the message of an assertion, the line before the failing node of a
  graph, or the first line, without names of operations.
  """
  message = str(error)
  assertion = re.search(r"assertion failed: \[(.*?)\]", message, re.DOTALL)
  if assertion:
    return assertion[1]
  line = (message.strip().splitlines() or [""])[0]
  node = re.search(r"^(.+)\n\s*\[\[\{\{node ", message, re.MULTILINE)
  if node and line.startswith("Graph execution error"):
    line = node[1].strip()
  return re.sub(r"^\{\{.*?\}\} |^\(\d+\) [A-Z_]+:\s*| \[Op:\w+\].*$", "", line)


def printable(text: str) -> str:
  """Escapes the control characters of a text for a terminal.

  A label or a name in a file could otherwise control the terminal.
  """
  return re.sub(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", text
  )
