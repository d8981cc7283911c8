"""Access to local and remote files and folders with the same functions.

Remote paths have a scheme, such as gs://, and are handled by `tf.io.gfile`.
Local paths do not import TensorFlow, so code that reads local text and
vocabularies starts fast. Every function raises OSError if a path cannot be read
or written.
"""

import codecs
import contextlib
import functools
import glob
import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from types import ModuleType
from typing import BinaryIO

from absl import logging

from bert_tf.files import encodings

_BUFFER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 22  # Size of the blocks that `sha256` reads.


class _RawGFile(io.RawIOBase):
  """A `GFile` with the interface of Python's raw files, for buffering.

  GFile's own readline is ten times slower.
  """

  def __init__(self, path: str) -> None:
    self._path = path
    self._file = _gfile().GFile(path, "rb")

  def readable(self) -> bool:
    return True

  def seekable(self) -> bool:
    return True

  def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
    with _os_errors(self._path):
      data = self._file.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)

  def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
    self._file.seek(offset, whence)
    return self._file.tell()

  def close(self) -> None:
    self._file.close()
    super().close()


def is_remote(path: str | os.PathLike[str]) -> bool:
  """Returns whether a path has a scheme, such as gs://."""
  return "://" in os.fspath(path)


def split(path: str) -> tuple[str, str]:
  """Returns the folder and the name of a file, like os.path.split."""
  if is_remote(path):
    name = path.rpartition("/")[2]
    return path.removesuffix(name), name  # "gs://" loses no slash.
  return os.path.split(path)


def open_bytes(path: str) -> BinaryIO:
  """Opens a file for reading bytes.

  Raises:
    OSError: if the file cannot be opened. For remote files, the first read may
      raise the error instead.
  """
  if is_remote(path):
    return io.BufferedReader(_RawGFile(path), _BUFFER_BYTES)
  return open(path, "rb")


def read_bytes(path: str) -> bytes:
  """Returns the whole content of a file."""
  with open_bytes(path) as reader:
    return reader.read()


def sha256(path: str) -> str:
  """Returns the SHA-256 of a file in hexadecimal digits."""
  hashed = hashlib.sha256()
  with open_bytes(path) as reader:
    while block := reader.read(_BLOCK_BYTES):
      hashed.update(block)
  return hashed.hexdigest()


def read_text(path: str) -> str:
  """Returns the content of a UTF-8 file without a byte order mark.

  Line ends are not converted.

  Raises:
    ValueError: if the file is not UTF-8. Names the file and the line.
  """
  return encodings.decode(path, without_mark(path, read_bytes(path)))


def without_mark(path: str, start: bytes) -> bytes:
  """Returns the start of a UTF-8 file without a byte order mark.

  Some editors write the mark. As text it would become part of the first word.
  The log names each such file once.

  Args:
    path: The file.
    start: Content of the file, or its first line or block.

  Raises:
    ValueError: if the file looks like UTF-16 or UTF-32.
  """
  encodings.check(path, start)
  if not start.startswith(codecs.BOM_UTF8):
    return start
  _log_mark(path)
  return start.removeprefix(codecs.BOM_UTF8)


@functools.cache
def _log_mark(path: str) -> None:
  logging.warning("%s begins with a byte order mark, which is ignored.", path)


def exists(path: str) -> bool:
  """Returns whether a file or a folder exists."""
  if is_remote(path):
    with _os_errors(path):
      return _gfile().exists(path)
  return os.path.exists(path)


def is_folder(path: str) -> bool:
  """Returns whether a folder exists."""
  if is_remote(path):
    with _os_errors(path):
      return _gfile().isdir(path)
  return os.path.isdir(path)


def is_file(path: str) -> bool:
  """Returns whether a regular file exists, not a folder or a pipe."""
  if is_remote(path):
    return exists(path) and not is_folder(path)
  return os.path.isfile(path)


def is_empty(path: str) -> bool:
  """Returns whether a regular file exists and has zero bytes."""
  if is_remote(path):
    return num_bytes(path) == 0
  return os.path.isfile(path) and os.path.getsize(path) == 0


def num_bytes(path: str) -> int:
  """Returns the size of a file as stored."""
  if is_remote(path):
    with _os_errors(path):
      return _gfile().stat(path).length
  return os.path.getsize(path)


def matches(pattern: str) -> list[str]:
  """Returns the sorted matches of a glob. `**` works for local paths only."""
  if is_remote(pattern):
    with _os_errors(pattern):
      return sorted(_gfile().glob(pattern))
  return sorted(glob.glob(pattern, recursive=True))


def expand(pattern: str) -> list[str]:
  """Returns the file or folder of this name, else the matches of the glob."""
  return [pattern] if exists(pattern) else matches(pattern)


def list_folder(path: str) -> list[str]:
  """Returns the sorted names in a folder, including hidden ones."""
  if is_remote(path):
    with _os_errors(path):
      return sorted(name.rstrip("/") for name in _gfile().listdir(path))
  return sorted(os.listdir(path))


def is_free(path: str) -> bool:
  """Returns whether a path does not exist or is an empty folder."""
  return not exists(path) or (is_folder(path) and not list_folder(path))


def make_folder(path: str) -> None:
  """Makes a folder and its missing parents."""
  if is_remote(path):
    with _os_errors(path):
      _gfile().makedirs(path)
  elif path:
    os.makedirs(path, exist_ok=True)


def remove(path: str) -> None:
  """Removes a file, or a folder with its content, if it exists."""
  if is_remote(path):
    with contextlib.suppress(FileNotFoundError), _os_errors(path):
      gfile = _gfile()
      gfile.rmtree(path) if gfile.isdir(path) else gfile.remove(path)
  elif os.path.isdir(path) and not os.path.islink(path):
    shutil.rmtree(path)
  else:
    with contextlib.suppress(FileNotFoundError):
      os.remove(path)


def rename(path: str, new_path: str) -> None:
  """Renames a file, replacing an existing file."""
  if is_remote(path):
    with _os_errors(new_path):
      _gfile().rename(path, new_path, overwrite=True)
  else:
    os.replace(path, new_path)


def link(path: str, new_path: str) -> None:
  """Makes a hard link to a local file, or a copy if that is not possible."""
  try:
    if not is_remote(path):
      return os.link(path, new_path)
  except OSError:  # The file system has no links, or `new_path` exists.
    pass
  return copy(path, new_path)


def copy(path: str, new_path: str) -> None:
  """Copies a file, replacing an existing file."""
  if is_remote(path) or is_remote(new_path):
    with _os_errors(new_path):
      _gfile().copy(path, new_path, overwrite=True)
  else:
    shutil.copyfile(path, new_path)


@contextlib.contextmanager
def _os_errors(path: str) -> Iterator[None]:
  """Raises TensorFlow's file-system errors as OSError with the path."""
  import tensorflow as tf

  try:
    yield
  except tf.errors.NotFoundError as error:
    raise FileNotFoundError(2, "there is no such file", path) from error
  except tf.errors.OpError as error:
    reason = (error.message.splitlines() or [""])[0]
    raise OSError(f"{path}: {reason}") from error


def _gfile() -> ModuleType:
  import tensorflow as tf  # Takes seconds; most paths are local.

  return tf.io.gfile
