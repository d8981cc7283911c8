"""Access to local and remote files and folders with the same functions.

Remote paths have a scheme, such as gs://, and are handled by `tf.io.gfile`,
like the checkpoints and records that TensorFlow itself reads and writes. Local
paths do not import TensorFlow, so code that reads text and vocabularies starts
fast. Every function raises OSError if a path cannot be read or written.
"""

import contextlib
import glob
import hashlib
import io
import os
import shutil
from typing import Any, BinaryIO

_BUFFER_BYTES = 1 << 20


def _gfile(function: str, *arguments: Any, **options: Any) -> Any:
  """Calls a function of tf.io.gfile; raises its errors as OSError."""
  import tensorflow as tf  # Takes seconds; most paths are local.

  try:
    return getattr(tf.io.gfile, function)(*arguments, **options)
  except tf.errors.NotFoundError as error:
    path = arguments[0]
    raise FileNotFoundError(2, "there is no such file", path) from error
  except tf.errors.OpError as error:
    reason = (error.message.splitlines() or [""])[0]
    raise OSError(f"{arguments[-1]}: {reason}") from error


class _RawGFile(io.RawIOBase):
  """A `GFile` with the interface of Python's raw files, for buffering.

  GFile's own readline is ten times slower.
  """

  def __init__(self, path: str) -> None:
    num_bytes(path)  # Fails for a missing file, unlike GFile's constructor.
    self._file = _gfile("GFile", path, "rb")

  def readable(self) -> bool:
    return True

  def seekable(self) -> bool:
    return True

  def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
    data = self._file.read(len(buffer))
    buffer[: len(data)] = data
    return len(data)

  def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
    self._file.seek(offset, whence)
    return int(self._file.tell())

  def close(self) -> None:
    self._file.close()
    super().close()


def is_remote(path: str | os.PathLike[str]) -> bool:
  """Returns whether a path has a scheme, such as gs://."""
  return "://" in os.fspath(path)


def open_bytes(path: str) -> BinaryIO:
  """Opens a file for reading bytes."""
  if is_remote(path):
    return io.BufferedReader(_RawGFile(path), _BUFFER_BYTES)
  return open(path, "rb")


def read_bytes(path: str, size: int = -1) -> bytes:
  """Returns the content of a file, or its first `size` bytes."""
  with open_bytes(path) as reader:
    return reader.read(size)


def sha256(path: str) -> str:
  """Returns the SHA-256 of a file in hexadecimal digits."""
  hashed = hashlib.sha256()
  with open_bytes(path) as reader:
    while block := reader.read(_BUFFER_BYTES):
      hashed.update(block)
  return hashed.hexdigest()


def exists(path: str) -> bool:
  """Returns whether a file or a folder exists."""
  return _gfile("exists", path) if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
  """Returns whether a folder exists."""
  return _gfile("isdir", path) if is_remote(path) else os.path.isdir(path)


def is_file(path: str) -> bool:
  """Returns whether a regular file exists, not a folder or a pipe."""
  if is_remote(path):
    return exists(path) and not is_folder(path)
  return os.path.isfile(path)


def num_bytes(path: str) -> int:
  """Returns the size of a file as stored."""
  if is_remote(path):
    return int(_gfile("stat", path).length)
  return os.path.getsize(path)


def matches(pattern: str) -> list[str]:
  """Returns the sorted matches of a glob. `**` works for local paths only.

  Hidden names match only a pattern that begins with a dot.
  """
  if not is_remote(pattern):
    return sorted(glob.glob(pattern, recursive=True))
  names = ((os.path.basename(path), path) for path in _gfile("glob", pattern))
  has_dot = os.path.basename(pattern).startswith(".")
  return sorted(path for name, path in names if has_dot or name[:1] != ".")


def list_folder(path: str) -> list[str]:
  """Returns the sorted names in a folder, including hidden ones."""
  if is_remote(path):
    return sorted(name.rstrip("/") for name in _gfile("listdir", path))
  return sorted(os.listdir(path))


def is_free(path: str) -> bool:
  """Returns whether a path does not exist or is an empty folder."""
  return not exists(path) or (is_folder(path) and not list_folder(path))


def make_folder(path: str) -> None:
  """Makes a folder and its missing parents."""
  if is_remote(path):
    _gfile("makedirs", path)
  elif path:
    os.makedirs(path, exist_ok=True)


def remove(path: str) -> None:
  """Removes a file, or a folder with its content, if it exists."""
  with contextlib.suppress(FileNotFoundError):
    if is_remote(path):
      _gfile("rmtree" if is_folder(path) else "remove", path)
    elif os.path.isdir(path) and not os.path.islink(path):
      shutil.rmtree(path)
    else:
      os.remove(path)


def rename(path: str, new_path: str) -> None:
  """Renames a file, replacing an existing file."""
  if is_remote(path):
    _gfile("rename", path, new_path, overwrite=True)
  else:
    os.replace(path, new_path)


def copy(path: str, new_path: str) -> None:
  """Copies a file, replacing an existing file."""
  if is_remote(path) or is_remote(new_path):
    _gfile("copy", path, new_path, overwrite=True)
  else:
    shutil.copyfile(path, new_path)
