"""A lock on a folder, so that only one process writes a run there.

The system releases the lock when the process ends for any reason. Folders in
buckets, such as gs://, have no locks.
"""

import contextlib
import errno
import os
from collections.abc import Iterator

import filelock
from absl import logging

from bert_tf.files import paths

FILE = ".run.lock"  # Stays in the folder.


class FolderInUseError(OSError):
  """Another process is writing a run in the folder."""


@contextlib.contextmanager
def hold(folder: str) -> Iterator[None]:
  """Holds the lock of a folder in this scope. Makes the folder if needed.

  Raises:
    FolderInUseError: if another process, or this one, holds the lock.
  """
  paths.make_folder(folder)
  lock = filelock.FileLock(os.path.join(folder, FILE))
  try:
    if not paths.is_remote(folder):
      lock.acquire(timeout=0)
  except filelock.Timeout:
    raise FolderInUseError(f"another process trains in {folder}.") from None
  except OSError as error:
    if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
      raise
    logging.warning("%s has no locks: start only one training in it.", folder)
  try:
    yield
  finally:
    lock.release()


def is_held(folder: str) -> bool:
  """Returns whether a process, also this one, holds the lock of a folder."""
  path = os.path.join(folder, FILE)
  if not os.path.exists(path):  # Also in buckets.
    return False
  try:
    with filelock.FileLock(path, timeout=0):
      return False
  except OSError:  # Held, or another user's.
    return True
