"""Errors of files, of memory and of TensorFlow."""

import contextlib
import errno
import os
import re
from collections.abc import Iterator


class OutOfMemoryError(MemoryError):
  """Memory is exhausted; the message names what did not fit and what helps."""


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
  """Returns the error number of a full disk, a quota, or too many open files.

  TensorFlow gives only its text, in an error that also means a lack of memory.
  """
  numbers = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE),
  )
  return next((n for n in numbers if os.strerror(n) in str(error)), None)


def reason(error: Exception) -> str:
  """Returns the reason in an error of TensorFlow, in one line.

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
