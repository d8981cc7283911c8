"""Locks, so that only one process writes a run in a folder, or a file.

The system releases a lock when the process ends for any reason. Buckets, such
as gs://, have no locks.
"""

import contextlib
import errno
import os
from collections.abc import Iterator

import filelock
from absl import logging

from bert_tf.files import atomic, paths

FILE = ".run.lock"  # Stays in the folder.


class FolderInUseError(OSError):
  """Another process writes a run in the folder, or the file."""


def hold(folder: str) -> contextlib.AbstractContextManager[None]:
  """Holds the lock of a folder in this scope. Makes the folder if needed.

  Raises:
    FolderInUseError: if another process, or this one, holds the lock.
  """
  path = os.path.join(folder, FILE)
  return _hold(path, f"another process trains in {folder}")


@contextlib.contextmanager
def hold_file(path: str) -> Iterator[None]:
  """Holds the lock of a file to write; see `hold`.

  The lock is a hidden file beside it, which is removed at the end.
  """
  lock = atomic.hidden(path, "lock")
  with _hold(lock, f"another process writes {path}"):
    try:
      yield
    finally:
      paths.remove(lock)


@contextlib.contextmanager
def _hold(path: str, fault: str) -> Iterator[None]:
  folder = os.path.dirname(path)
  paths.make_folder(folder)
  # If the system has no flock at all, filelock itself uses another lock.
  lock = filelock.FileLock(path)
  try:
    if not paths.is_remote(path):
      lock.acquire(timeout=0)
  except filelock.Timeout:
    raise FolderInUseError(f"{fault}.") from None
  except OSError as error:
    if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
      raise
    logging.warning("%s has no locks, so start only one command in it.", folder)
  try:
    yield
  finally:
    lock.release()
