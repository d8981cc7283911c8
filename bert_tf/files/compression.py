"""Opens plain files and files compressed as .gz or .bz2."""

import bz2
import contextlib
import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TextIO

from bert_tf.files import paths

SUFFIXES = (".gz", ".bz2")
_OPENERS: dict[str, Callable[..., Any]] = {"gz": gzip.open, "bz2": bz2.open}


@contextlib.contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
  """Opens a file for reading; decompresses .gz and .bz2.

  Raises:
    ValueError: while reading, if a compressed file is damaged or incomplete.
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
  """Decompresses an open file; raises the errors of `open_file`."""
  try:
    with _OPENERS[path.rpartition(".")[2]](stored) as reader:
      yield reader
  except (OSError, EOFError, zlib.error) as error:
    if isinstance(error, OSError) and error.errno is not None:
      raise  # An error of the system, not of gzip or bz2.
    name = "gzip" if path.endswith(".gz") else "bzip2"
    raise ValueError(f"{path}: not a whole {name} file ({error}).") from None


def text_writer(path: str, name: str) -> TextIO:
  """Opens a local file for writing text; compresses by the suffix of `name`."""
  opener = _OPENERS.get(name.rpartition(".")[2], open)
  return opener(path, "wt", encoding="utf-8", newline="\n")


def without_suffix(path: str) -> str:
  """Returns a path without its .gz or .bz2."""
  return path.removesuffix(".gz").removesuffix(".bz2")
