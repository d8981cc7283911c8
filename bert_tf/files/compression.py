"""Opens files as they are stored, or compressed as .gz and .bz2."""

import bz2
import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TextIO

from bert_tf.files import paths

SUFFIXES = (".gz", ".bz2")


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
  """Opens a file to read its content, decompressed by the end of its name.

  Raises:
    ValueError: if a compressed file is damaged or cut off, as it is read.
    OSError: if the file cannot be read.
  """
  with paths.open_bytes(path) as stored:
    if not path.endswith(SUFFIXES):
      yield stored
      return
    with decompressed(path, stored) as reader:
      yield reader


@contextlib.contextmanager
def decompressed(path: str, stored: BinaryIO) -> Iterator[BinaryIO]:
  """Opens what a compressed file that is open holds; raises as `opened`."""
  try:
    with _opener(path)(stored) as reader:
      yield reader
  except (gzip.BadGzipFile, EOFError, zlib.error) as error:
    raise _damaged(path, error) from None
  except OSError as error:
    if error.errno is not None:  # Of the system, not of bz2.
      raise
    raise _damaged(path, error) from None


def text_writer(path: str, name: str) -> TextIO:
  """Opens a local file to write text, compressed by the end of a name.

  Args:
    path: of the file.
    name: the one that it gets when it is whole.
  """
  return _opener(name)(path, "wt", encoding="utf-8", newline="\n")


def _opener(name: str) -> Callable[..., Any]:
  """Returns the function that opens files whose name ends so."""
  if not name.endswith(SUFFIXES):
    return open
  return gzip.open if name.endswith(".gz") else bz2.open


def _damaged(path: str, error: Exception) -> ValueError:
  kind = "gzip" if path.endswith(".gz") else "bzip2"
  return ValueError(
    f"{path}: not a whole {kind} file ({error}); fetch it again."
  )
