"""Files to read, on this machine or at gs:// and the like.

What has a scheme is TensorFlow's, `tf.io.gfile`. TensorFlow is imported for
such a path only, so what reads text and vocabularies does without it.
"""

import glob
import io
import os
from types import ModuleType
from typing import BinaryIO

_BUFFER_BYTES = 1 << 20


class _RawGFile(io.RawIOBase):
  """A `GFile` as Python's files are, to be buffered as they are.

  Its own lines come one call at a time, ten times slower.
  """

  def __init__(self, path: str) -> None:
    self._file = _gfile().GFile(path, "rb")

  def readable(self) -> bool:
    return True

  def seekable(self) -> bool:
    return True

  def readinto(self, buffer: memoryview) -> int:
    data = self._file.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)

  def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
    self._file.seek(offset, whence)
    return self._file.tell()

  def close(self) -> None:
    self._file.close()
    super().close()


def open_bytes(path: str) -> BinaryIO:
  """Opens a file to read its bytes.

  Raises:
    OSError, tf.errors.OpError: the file cannot be opened; for one with a
      scheme this may show at the first read.
  """
  if _is_remote(path):
    return io.BufferedReader(_RawGFile(path), _BUFFER_BYTES)
  return open(path, "rb")


def exists(path: str) -> bool:
  """Returns whether there is a file or a folder."""
  return _gfile().exists(path) if _is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
  """Returns whether there is a folder."""
  return _gfile().isdir(path) if _is_remote(path) else os.path.isdir(path)


def is_empty(path: str) -> bool:
  """Returns whether there is a file without a byte; a pipe is not one."""
  if _is_remote(path):
    return num_bytes(path) == 0
  return os.path.isfile(path) and os.path.getsize(path) == 0


def num_bytes(path: str) -> int:
  """Returns the size of a file, as it is stored.

  Raises:
    OSError, tf.errors.OpError: there is none.
  """
  if _is_remote(path):
    return _gfile().stat(path).length
  return os.path.getsize(path)


def matches(pattern: str) -> list[str]:
  """Returns what a glob matches, sorted; `**` is for paths without a scheme."""
  if _is_remote(pattern):
    return sorted(_gfile().glob(pattern))
  return sorted(glob.glob(pattern, recursive=True))


def _is_remote(path: str) -> bool:
  """Whether a path has a scheme, as gs:// is one."""
  return "://" in path


def _gfile() -> ModuleType:
  """The module `tf.io.gfile`."""
  import tensorflow as tf  # Takes seconds, and most paths are local.

  return tf.io.gfile
