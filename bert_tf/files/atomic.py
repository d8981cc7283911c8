"""The one way to write a file or a folder: whole, or not at all.

What is written lies in a hidden folder beside its place, is flushed to disk
and then renamed. Until that last step an older version stays as it was,
whatever fails. For gs:// and the like it lies on this machine first.
"""

import contextlib
import errno
import glob
import os
import secrets
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from bert_tf.files import paths

# Errors of a disk, a quota or a limit on files.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# Tells a process from an earlier one that had its number, as in containers.
_TOKEN = secrets.token_hex(4)


def write(path: str, pieces: Iterable[str]) -> None:
  """Writes a UTF-8 text file in pieces, and missing folders.

  Raises:
    OSError: if it cannot be written.
  """
  with file(path) as unfinished:
    with open(unfinished, "w", encoding="utf-8", newline="\n") as writer:
      writer.writelines(pieces)


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes a file of lines, given without their ends; as `write`."""
  write(path, (line + "\n" for line in lines))


def write_bytes(path: str, content: bytes) -> None:
  """Writes a binary file; as `write`."""
  with file(path) as unfinished, open(unfinished, "wb") as writer:
    writer.write(content)


@contextlib.contextmanager
def file(path: str) -> Iterator[str]:
  """Yields a local path to write a file to; see `files`."""
  with files([path]) as (unfinished,):
    yield unfinished


@contextlib.contextmanager
def files(targets: Sequence[str]) -> Iterator[list[str]]:
  """Yields local paths to write files to, which then take their places.

  The paths end in the names of the targets, so libraries that go by the suffix
  of a name can write there. When the body raises, nothing is left of them and
  the targets are as they were. They are put in place in this order, in folders
  that are made where they are missing.

  Raises:
    OSError: if one cannot be written; as a rule before the body runs.
  """
  for target in targets:
    _check_is_no_folder(target)
  with contextlib.ExitStack() as stack:
    unfinished = [
      os.path.join(
        stack.enter_context(hidden_folder(target)), os.path.basename(target)
      )
      for target in targets
    ]
    yield unfinished
    for path, target in zip(unfinished, targets):
      publish(path, target)


@contextlib.contextmanager
def folder(target: str, last: str, replaces: bool = False) -> Iterator[str]:
  """Yields a new local folder to fill, which then takes its place.

  The target is new or empty, unless it `replaces` an older one, which stays
  until the new one is whole. Where a folder cannot be moved in one step, as at
  gs://, the file `last`, without which it counts for nothing, goes there last.

  Raises:
    OSError: if it cannot be written.
  """
  target = target.rstrip("/")
  with hidden_folder(target) as parent:
    unfinished = os.path.join(parent, os.path.basename(target))
    os.makedirs(unfinished)
    yield unfinished
    names = [
      os.path.relpath(os.path.join(parent, name), unfinished)
      for parent, _, files in os.walk(unfinished)
      for name in files
    ]
    for name in names:
      _flush(os.path.join(unfinished, name))
    if not paths.is_remote(target):
      for inner, _, _ in os.walk(unfinished):
        _flush_names(inner)
      if replaces and os.path.isdir(target):
        _replace_folder(unfinished, target, os.path.join(parent, "older"))
      else:
        os.replace(unfinished, target)
      _flush_names(os.path.dirname(target))
      return
    if replaces:
      paths.remove(f"{target}/{last}")  # Or it would stand for half a folder.
      paths.remove(target)
    for name in sorted(names, key=lambda name: (name == last, name)):
      remote = f"{target}/{name}"
      paths.make_folder(os.path.dirname(remote))
      paths.copy(os.path.join(unfinished, name), remote)


def _replace_folder(unfinished: str, target: str, aside: str) -> None:
  """Moves a folder to the place of another, which is moved aside.

  The name is free for an instant: no system call of Python's swaps folders.
  """
  os.rename(target, aside)
  try:
    os.rename(unfinished, target)
  except BaseException:
    os.rename(aside, target)
    raise


@contextlib.contextmanager
def hidden_folder(target: str) -> Iterator[str]:
  """Yields an empty local folder to write `target` in, removed at the end.

  It is hidden and lies beside the target, or in the machine's folder for
  temporary files if the target has a scheme. The target's folder is made.
  """
  parent, name = paths.split(target)
  paths.make_folder(parent)
  if paths.is_remote(target):
    with tempfile.TemporaryDirectory(prefix="bert_tf_") as folder:
      with _naming(folder):
        yield folder
    return
  remove_unfinished(glob.escape(target), of_other_hosts=False)
  beside = hidden(target, _writer_suffix())
  paths.remove(beside)
  try:
    os.makedirs(beside)
  except OSError as error:
    raise OSError(f"cannot write {target}: {error.strerror}.") from error
  try:
    with _naming(target):
      yield beside
  finally:
    paths.remove(beside)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
  """Names what is written in the errors of a full disk, which name no file."""
  try:
    yield
  except OSError as error:
    if error.errno not in _FULL or error.filename:
      raise
    raise OSError(error.errno, f"{error.strerror}, to write", path) from error


def check_writable(path: str, name: str, is_folder: bool) -> None:
  """Raises OSError if a file or folder cannot be written; leaves nothing.

  Paths with a scheme are not tried.

  Args:
    path: of a file, a folder or a prefix of files, there already or not.
    name: of the setting that gives it, for the message.
    is_folder: whether files are written into it instead of beside it.
  """
  if paths.is_remote(path):
    return
  parent = os.path.abspath(path)
  if not is_folder:
    parent = os.path.dirname(parent)
  while not os.path.lexists(parent):
    parent = os.path.dirname(parent)
  try:
    with tempfile.TemporaryFile(dir=parent):
      pass
  except OSError as error:
    raise OSError(
      f"cannot write {path}: {parent}: {error.strerror}. Choose another "
      f"`{name}`."
    ) from error


def _check_is_no_folder(target: str) -> None:
  if paths.is_folder(target):
    raise IsADirectoryError(f"{target} is a folder; name a file to write.")


def publish(path: str, target: str) -> None:
  """Moves a local file from a `hidden_folder` to its place in one step."""
  _check_is_no_folder(target)
  _flush(path)
  if paths.is_remote(target):
    beside = hidden(target, _writer_suffix())
    try:
      paths.copy(path, beside)
      paths.rename(beside, target)
    finally:
      paths.remove(beside)
  else:
    os.replace(path, target)
    # What is put in place after it must not outlast it in a power failure.
    _flush_names(os.path.dirname(target))


def remove_unfinished(target: str, of_other_hosts: bool = True) -> None:
  """Removes what killed processes left of a file; a glob stands for several.

  What a living process of this host writes stays. Whether one of another host
  lives is not known, so leave those out where it may.
  """
  for path in paths.matches(hidden(target, "tmp-*")):
    host, _, rest = path.rpartition(".tmp-")[2].partition("-pid-")
    is_own_host = host == socket.gethostname()
    if _is_writing(rest) if is_own_host else not of_other_hosts:
      continue
    paths.remove(path)


def _is_writing(process: str) -> bool:
  """Returns whether a process of this host lives, by PID-TOKEN."""
  number, _, token = process.partition("-")
  if int(number) == os.getpid():
    return token == _TOKEN
  try:
    os.kill(int(number), 0)
  except ProcessLookupError:
    return False
  except PermissionError:
    pass  # Another user's.
  return True


def hidden(target: str, suffix: str) -> str:
  """Returns `parent/.name.suffix` for `parent/name`, which globs leave out."""
  parent, name = paths.split(target)
  return os.path.join(parent, f".{name}.{suffix}")


def _writer_suffix() -> str:
  """Returns what tells this process from others that write the same file."""
  # A cluster may build a shard twice at once, on two machines.
  return f"tmp-{socket.gethostname()}-pid-{os.getpid()}-{_TOKEN}"


def _flush(path: str) -> None:
  """Has the system write a local file to the disk."""
  with open(path, "rb+") as opened:
    os.fsync(opened.fileno())


def _flush_names(folder: str) -> None:
  """Has the system write a local folder's names to the disk, where it can."""
  with contextlib.suppress(OSError):  # Some file systems refuse it.
    opened = os.open(folder or ".", os.O_RDONLY)
    try:
      os.fsync(opened)
    finally:
      os.close(opened)
