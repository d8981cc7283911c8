"""Atomic writes: a file or folder is written completely or not at all.

New content goes to a hidden folder next to the target, is flushed to disk and
then renamed. Until the rename, an older version stays as it was, whatever
fails. A writer holds a lock on its hidden folder, so that the next writer of
the same target can remove what a killed one has left behind. Content for gs://
and other remote paths is written locally first. All functions raise OSError if
they cannot write.

A whole run locks its folder or its file. The system releases all locks when a
process ends for any reason. Buckets, such as gs://, have none.
"""

import contextlib
import errno
import fcntl
import glob
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import filelock
from absl import logging

from bert_tf.files import errors, paths

# Begins the suffix of the hidden files and folders that are unfinished.
_UNFINISHED = "tmp-bert_tf-"

LOCK_FILE = ".run.lock"  # Stays in the folder of a run.


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes a UTF-8 file of lines without their ends. Makes missing folders."""
  with (
    file(path) as unfinished,
    open(unfinished, "w", encoding="utf-8", newline="\n") as writer,
  ):
    writer.writelines(line + "\n" for line in lines)


def write_bytes(path: str, content: bytes) -> None:
  """Writes a binary file. Makes missing folders."""
  with file(path) as unfinished, open(unfinished, "wb") as writer:
    writer.write(content)


@contextlib.contextmanager
def file(path: str) -> Iterator[str]:
  """Yields a local path to write a file to; see `files`."""
  with files([path]) as (unfinished,):
    yield unfinished


@contextlib.contextmanager
def files(targets: Sequence[str]) -> Iterator[list[str]]:
  """Yields local paths to write to, then moves the files to their targets.

  The paths end in the names of the targets. Files are moved in the given order
  after the body. If the body raises, the targets stay as they were. Missing
  folders are made.
  """
  for target in targets:
    _check_is_file(target)
  with contextlib.ExitStack() as stack:
    folders = [stack.enter_context(hidden_folder(t)) for t in targets]
    names = map(os.path.basename, targets)
    unfinished = list(map(os.path.join, folders, names))
    yield unfinished
    for path, target in zip(unfinished, targets):
      publish(path, target)


@contextlib.contextmanager
def folder(target: str, last: str, replaces: bool = False) -> Iterator[str]:
  """Yields a new local folder to fill, and moves it to its target.

  Args:
    target: the folder to write.
    last: name of the file without which the folder is not valid. It is written
      last if the folder cannot be moved in one step, as on gs://.
    replaces: whether the target may exist. It stays until the new folder is
      complete. Otherwise the target must be new or empty.
  """
  target = target.rstrip("/")
  with hidden_folder(target) as parent:
    unfinished = os.path.join(parent, os.path.basename(target))
    os.makedirs(unfinished)
    yield unfinished
    folders = list(os.walk(unfinished))
    written = [os.path.join(top, n) for top, _, names in folders for n in names]
    if paths.is_remote(target):
      if replaces:
        paths.remove(f"{target}/{last}")  # Makes the partial folder invalid.
        paths.remove(target)
      names = [os.path.relpath(path, unfinished) for path in written]
      for name in sorted(names, key=lambda name: (name == last, name)):
        paths.make_folder(os.path.dirname(f"{target}/{name}"))
        paths.copy(os.path.join(unfinished, name), f"{target}/{name}")
      return
    for path in (*written, *(top for top, _, _ in folders)):
      _flush(path)
    older = os.path.join(parent, "older")
    if replaces and os.path.isdir(target):
      os.rename(target, older)  # Python cannot swap folders.
    try:
      os.rename(unfinished, target)
    except BaseException:
      if os.path.isdir(older):
        os.rename(older, target)
      raise
    _flush(os.path.dirname(target))


@contextlib.contextmanager
def hidden_folder(target: str) -> Iterator[str]:
  """Yields an empty local folder to write `target` in; removes it at the end.

  It is next to the target and has a random name, so that several processes may
  write the same target. For a remote target, it is a temporary folder. Folders
  that killed writers of the target left behind are removed. The error of a full
  disk names the target.
  """
  parent, name = os.path.split(target)
  paths.make_folder(parent)
  with contextlib.ExitStack() as stack:
    if paths.is_remote(target):
      folder = stack.enter_context(tempfile.TemporaryDirectory())
    else:
      remove_unfinished(glob.escape(target))
      # It is locked before it gets the name that `remove_unfinished` looks for.
      new = tempfile.mkdtemp(prefix=f".{name}.new-", dir=parent or ".")
      stack.enter_context(_try_lock(new))
      folder = hidden(target, f"{_UNFINISHED}{secrets.token_hex(4)}")
      os.rename(new, folder)
      stack.callback(paths.remove, folder)
    try:
      yield folder
    except Exception as error:
      number = errors.system_limit(error)
      if number is None or getattr(error, "filename", None):
        raise
      # The system does not say which file did not fit.
      reason = f"{os.strerror(number)}, to write"
      raise OSError(number, reason, target) from error


@contextlib.contextmanager
def _try_lock(path: str) -> Iterator[bool]:
  """Locks a local file or folder; yields whether no other writer holds it.

  The system releases the lock of a killed process. On a file system without
  locks, nobody gets one.
  """
  opened = os.open(path, os.O_RDONLY)
  try:
    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    is_locked = True
  except OSError:
    is_locked = False
  try:
    yield is_locked
  finally:
    os.close(opened)


def check_writable(path: str, name: str, is_folder: bool) -> None:
  """Raises OSError if a file or folder cannot be written. Leaves no trace.

  `path` is a file, a folder or a prefix of files, which may exist, and `name`
  the setting that gives it. Remote paths are not checked.
  """
  if paths.is_remote(path):
    return
  parent = os.path.abspath(path)
  if not is_folder:
    if not os.path.isdir(path):  # A prefix of files may be a folder, too.
      _check_is_file(path)
    parent = os.path.dirname(parent)
  while not os.path.lexists(parent):
    parent = os.path.dirname(parent)
  try:
    tempfile.TemporaryFile(dir=parent).close()
  except OSError as error:
    raise OSError(
      f"cannot write `{name}` {path}: {parent}: {error.strerror}."
    ) from error


def can_write(folder: str) -> bool:
  """Returns whether files can be written in a folder; see `check_writable`."""
  try:
    check_writable(folder, "", is_folder=True)
  except OSError:
    return False
  return True


def _check_is_file(target: str) -> None:
  if paths.is_folder(target):
    raise IsADirectoryError(f"{target} is a folder; name a file to write.")
  if os.path.exists(target) and not os.path.isfile(target):
    raise OSError(f"{target} is a device or a pipe; name a file to write.")


def publish(path: str, target: str) -> None:
  """Moves a local file from a `hidden_folder` to its target in one step."""
  _flush(path)
  if paths.is_remote(target):
    beside = hidden(target, f"{_UNFINISHED}{secrets.token_hex(4)}")
    try:
      paths.copy(path, beside)
      paths.rename(beside, target)
    finally:
      paths.remove(beside)
  else:
    os.replace(path, target)
    # Otherwise a power failure could lose this file but not a later one.
    _flush(os.path.dirname(target))


def remove_unfinished(target: str) -> None:
  """Removes what killed writers of a file or a folder left behind.

  `target` is a path or a glob. Nothing that is still being written is removed,
  except from remote folders, which have no locks.
  """
  for path in paths.matches(hidden(target, f"{_UNFINISHED}*")):
    if paths.is_remote(path):
      paths.remove(path)
      continue
    with contextlib.suppress(FileNotFoundError):  # Another process removed it.
      with _try_lock(path) as is_abandoned:
        if is_abandoned:
          paths.remove(path)


def hidden(target: str, suffix: str) -> str:
  """Returns `parent/.name.suffix` for `parent/name`. Globs skip such names."""
  parent, name = os.path.split(target)
  return os.path.join(parent, f".{name}.{suffix}")


def _flush(path: str) -> None:
  """Flushes a local file, or the names in a folder, to disk."""
  opened = os.open(path or ".", os.O_RDONLY)
  try:
    os.fsync(opened)
  except OSError:
    if os.path.isfile(path):  # Some file systems cannot flush folders.
      raise
  finally:
    os.close(opened)


class FolderInUseError(OSError):
  """Another process writes a run in the folder, or the file."""


def lock_folder(folder: str) -> contextlib.AbstractContextManager[None]:
  """Holds the lock of a folder in this scope. Makes the folder if needed.

  Raises:
    FolderInUseError: if another process, or this one, holds the lock.
  """
  return _hold(os.path.join(folder, LOCK_FILE), folder)


@contextlib.contextmanager
def lock_file(path: str) -> Iterator[None]:
  """Holds the lock of a file to write; see `lock_folder`.

  The lock is a hidden file beside it, which is removed at the end.
  """
  lock = hidden(path, "lock")
  with _hold(lock, path):
    try:
      yield
    finally:
      paths.remove(lock)


@contextlib.contextmanager
def _hold(lock_path: str, target: str) -> Iterator[None]:
  folder = os.path.dirname(lock_path)
  paths.make_folder(folder)
  # If the system has no flock at all, filelock itself uses another lock.
  lock = filelock.FileLock(lock_path)
  try:
    if not paths.is_remote(lock_path):
      lock.acquire(timeout=0)
  except filelock.Timeout:
    raise FolderInUseError(f"another process writes {target}.") from None
  except OSError as error:
    if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
      raise
    logging.warning("%s has no locks, so start only one command in it.", folder)
  try:
    yield
  finally:
    lock.release()
