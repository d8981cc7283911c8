"""A lock on a folder, so that only one process writes a run there.

On local file systems the lock is a flock, which the system releases when the
process ends for any reason.

Windows and other file systems, such as gs://, have no flock. There the holder
renews a file every few seconds. A file that is not renewed belongs to a killed
process. Two processes that start in the same second may both see a free folder.
Each writes its token, waits and reads it again; only the last writer continues.
"""

import contextlib
import datetime
import errno
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from absl import logging

from bert_tf.files import atomic, json_files, paths

FILE = ".run.lock"

# For file systems without locks:
_RENEW_SECONDS = 10.0  # Time between two renewals.
_STALE_SECONDS = 35.0  # A lock that is not renewed for so long is free.
_SETTLE_SECONDS = 2.0  # Time after which a new lock is read again.

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class FolderInUseError(OSError):
  """Another process is writing a run in the folder."""


@contextlib.contextmanager
def hold(folder: str) -> Iterator[None]:
  """Holds the lock of a folder in this scope. Makes the folder if needed.

  Raises:
    FolderInUseError: names the host and the process that hold the lock.
  """
  paths.make_folder(folder)
  path = os.path.join(folder, FILE)
  try:
    lock = None if paths.is_remote(path) else _lock(path)
  except OSError as error:
    if error.errno not in _NO_LOCKS or isinstance(error, FolderInUseError):
      raise
    lock = None
  if lock is None:
    with _hold_by_renewing(path):
      yield
    return
  try:
    _log_taken_over(path, os.read(lock, 1 << 12))
    os.truncate(lock, 0)
    os.pwrite(lock, json.dumps(_describe_process()).encode(), 0)
    yield
  finally:
    if _is_at(lock, path):
      os.remove(path)
    os.close(lock)


def is_held(folder: str) -> bool:
  """Returns whether a process, also this one, holds the lock of a folder.

  Where a flock cannot be tried, the file that a killed process left counts as a
  lock.
  """
  path = os.path.join(folder, FILE)
  if not paths.exists(path):
    return False
  if paths.is_remote(path):
    return True
  try:
    import fcntl

    # Only read, since the folder may be another user's.
    with open(path, "rb") as file:
      fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except FileNotFoundError:
    return False
  except (ImportError, OSError):
    return True
  return False


def _lock(path: str) -> int:
  """Makes and locks a file; returns its descriptor.

  Raises:
    FolderInUseError: if another process has locked the file.
    OSError: with an error number in _NO_LOCKS if the system has no flock.
  """
  try:
    import fcntl
  except ImportError:  # On Windows.
    raise OSError(errno.ENOSYS, "no flock") from None
  while True:
    opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
      fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
      if _is_at(opened, path):
        return opened
      os.close(opened)  # The holder has just removed the file.
    except OSError as error:
      content = os.read(opened, 1 << 12)
      os.close(opened)
      if isinstance(error, BlockingIOError):
        raise _in_use(path, content) from error
      raise


def _is_at(opened: int, path: str) -> bool:
  """Returns whether an open file is still the file at `path`."""
  try:
    return os.path.samestat(os.fstat(opened), os.stat(path))
  except FileNotFoundError:
    return False


@contextlib.contextmanager
def _hold_by_renewing(path: str) -> Iterator[None]:
  """Holds a lock by renewing its file in a thread.

  If the file exists, first waits for _STALE_SECONDS to see if it is renewed.
  """
  before = _read_lock(path)
  deadline = time.monotonic() + _STALE_SECONDS
  while before and time.monotonic() < deadline:
    logging.log_first_n(logging.INFO, "Waiting to see if %s is held.", 1, path)
    time.sleep(_RENEW_SECONDS / 4)
    if _read_lock(path) not in (before, b""):
      raise _in_use(path, before)
  _log_taken_over(path, before)
  own = {"token": secrets.token_hex(8), **_describe_process()}
  ends = threading.Event()

  def renew() -> None:
    count = 0
    while not ends.wait(_RENEW_SECONDS):
      count += 1
      content = json.dumps({**own, "renewed": count}).encode()
      with contextlib.suppress(OSError):  # The next renewal may succeed.
        atomic.write_bytes(path, content)

  atomic.write_bytes(path, json.dumps(own).encode())
  time.sleep(_SETTLE_SECONDS)
  content = _read_lock(path)
  if own["token"].encode() not in content:
    raise _in_use(path, content)
  thread = threading.Thread(target=renew, daemon=True)
  thread.start()
  try:
    yield
  finally:
    ends.set()
    thread.join()
    paths.remove(path)


def _read_lock(path: str) -> bytes:
  try:
    return paths.read_bytes(path)
  except FileNotFoundError:
    return b""


def _describe_process() -> dict[str, Any]:
  start = datetime.datetime.now().astimezone().isoformat("T", "seconds")
  return {"host": socket.gethostname(), "process": os.getpid(), "start": start}


def _describe_holder(content: bytes) -> str:
  """Returns a description of the process that a lock's content names."""
  try:
    holder = json_files.parse(content, FILE)
    return (
      f"process {holder['process']} on {holder['host']}, which started "
      f"{holder['start']}"
    )
  except (ValueError, KeyError, TypeError):
    return "another process"


def _in_use(path: str, content: bytes) -> FolderInUseError:
  return FolderInUseError(
    f"{os.path.dirname(path)} is in use by {_describe_holder(content)}; wait "
    "until it ends, or choose another `output_dir`."
  )


def _log_taken_over(path: str, content: bytes) -> None:
  if content:
    logging.warning(
      "Took over %s from %s, which ended without removing it.",
      path,
      _describe_holder(content),
    )
