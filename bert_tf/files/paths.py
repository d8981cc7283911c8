"""Files and folders on this machine or at gs:// and the like, by one name.

Only this module tells the two apart: a path with a scheme goes to
`tf.io.gfile`. TensorFlow is imported for such a path alone, so what reads
text and vocabularies runs without it. Every function raises OSError where a
path cannot be read or written.
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
_BLOCK_BYTES = 1 << 22  # That are hashed at once.


class _RawGFile(io.RawIOBase):
  """A `GFile` with the interface of Python's files, so that it is buffered.

  Its own readline makes one call a line, which is ten times slower.
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
  """Returns the folder and the name of a file, as os.path.split does."""
  if is_remote(path):
    name = path.rpartition("/")[2]
    return path.removesuffix(name), name  # "gs://" loses no slash.
  return os.path.split(path)


def open_bytes(path: str) -> BinaryIO:
  """Opens a file to read its bytes.

  Raises:
    OSError: if it cannot be opened; with a scheme this may show at the first
      read.
  """
  if is_remote(path):
    return io.BufferedReader(_RawGFile(path), _BUFFER_BYTES)
  return open(path, "rb")


def read_bytes(path: str) -> bytes:
  """Returns the whole content of a file."""
  with open_bytes(path) as reader:
    return reader.read()


def sha256(path: str) -> str:
  """Returns the SHA-256 of a file, in hexadecimal digits."""
  hashed = hashlib.sha256()
  with open_bytes(path) as reader:
    while block := reader.read(_BLOCK_BYTES):
      hashed.update(block)
  return hashed.hexdigest()


def read_text(path: str) -> str:
  """Returns the whole content of a UTF-8 file, its line ends as they are.

  A byte order mark is left out, as `without_mark` does it.

  Raises:
    ValueError: if the file is not UTF-8, naming file and line.
  """
  return encodings.decode(path, without_mark(path, read_bytes(path)))


def without_mark(path: str, start: bytes) -> bytes:
  """Returns the start of a UTF-8 file without a byte order mark.

  Editors write the mark; as text it would be a part of the first word. The log
  names each such file once.

  Args:
    path: The file.
    start: The file, or its first line or block.

  Raises:
    ValueError: if the file looks like UTF-16 or UTF-32.
  """
  encodings.check(path, start)
  if not start.startswith(codecs.BOM_UTF8):
    return start
  _say_mark(path)
  return start.removeprefix(codecs.BOM_UTF8)


@functools.cache
def _say_mark(path: str) -> None:
  logging.warning("%s begins with a byte order mark, left out.", path)


def exists(path: str) -> bool:
  """Returns whether there is a file or a folder."""
  return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
  """Returns whether there is a folder."""
  return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
  """Returns whether there is a file; a folder or a pipe does not count."""
  if is_remote(path):
    return exists(path) and not is_folder(path)
  return os.path.isfile(path)


def is_empty(path: str) -> bool:
  """Returns whether there is a file of zero bytes; a pipe does not count."""
  if is_remote(path):
    return num_bytes(path) == 0
  return os.path.isfile(path) and os.path.getsize(path) == 0


def num_bytes(path: str) -> int:
  """Returns the size of a file as it is stored."""
  if is_remote(path):
    with _os_errors(path):
      return _gfile().stat(path).length
  return os.path.getsize(path)


def matches(pattern: str) -> list[str]:
  """Returns what a glob matches, sorted; `**` is for paths without a scheme."""
  if is_remote(pattern):
    return sorted(_gfile().glob(pattern))
  return sorted(glob.glob(pattern, recursive=True))


def list_folder(path: str) -> list[str]:
  """Returns the names in a folder, sorted, hidden ones too."""
  if is_remote(path):
    with _os_errors(path):
      return sorted(name.rstrip("/") for name in _gfile().listdir(path))
  return sorted(os.listdir(path))


def is_free(path: str) -> bool:
  """Returns whether there is nothing, or an empty folder."""
  return not exists(path) or (is_folder(path) and not list_folder(path))


def make_folder(path: str) -> None:
  """Makes a folder and those above it, as far as they are missing."""
  if is_remote(path):
    with _os_errors(path):
      _gfile().makedirs(path)
  elif path:
    os.makedirs(path, exist_ok=True)


def remove(path: str) -> None:
  """Removes a file or a folder with all it holds, if there is one."""
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
  """Gives a file its name, in place of a file that has it."""
  if is_remote(path):
    with _os_errors(new_path):
      _gfile().rename(path, new_path, overwrite=True)
  else:
    os.replace(path, new_path)


def link(path: str, new_path: str) -> None:
  """Gives a file a second name; copies it where that cannot be done."""
  try:
    if not is_remote(path):
      return os.link(path, new_path)
  except OSError:  # The file system knows no links.
    pass
  return copy(path, new_path)


def copy(path: str, new_path: str) -> None:
  """Copies a file, in place of one that is there."""
  if is_remote(path) or is_remote(new_path):
    with _os_errors(new_path):
      _gfile().copy(path, new_path, overwrite=True)
  else:
    shutil.copyfile(path, new_path)


@contextlib.contextmanager
def _os_errors(path: str) -> Iterator[None]:
  """Raises TensorFlow's errors of file systems as OSError with the path."""
  import tensorflow as tf

  try:
    yield
  except tf.errors.NotFoundError as error:
    raise FileNotFoundError(2, "there is no such file", path) from error
  except tf.errors.OpError as error:
    reason = (error.message.splitlines() or [""])[0]
    raise OSError(f"{path}: {reason}") from error


def _gfile() -> ModuleType:
  """Returns the module `tf.io.gfile`."""
  import tensorflow as tf  # Takes seconds, and most paths are local.

  return tf.io.gfile
