"""The one way to write a file or a folder: whole, or not at all.

What is written lies in a hidden folder beside its place, is flushed to disk
and then renamed. Until that last step an older version stays as it was,
whatever fails. For gs:// and the like it lies on this machine first.
"""

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from bert_tf.files import paths


def write(path: str, pieces: Iterable[str]) -> None:
  """Writes a UTF-8 text file.

  Args:
    path: file to write; missing folders are made.
    pieces: its text, in any pieces. A string would be one character each, so
      give a list.

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

  The paths end in the names of the targets, so libraries that go by the
  suffix of a name can write there. When the body raises, nothing is left of
  them and the targets are as they were.

  Args:
    targets: files to write; they are put in place in this order. Missing
      folders are made.

  Raises:
    OSError: if one cannot be written; as a rule before the body runs.
  """
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
def folder(target: str, last: str) -> Iterator[str]:
  """Yields a new local folder to fill, which then takes its place.

  Args:
    target: folder to write; new or empty.
    last: name of the file without which the folder counts for nothing. Where
      a folder cannot be moved in one step, as at gs://, it goes there last.

  Raises:
    OSError: if it cannot be written.
  """
  target = target.rstrip("/")
  with hidden_folder(target) as parent:
    unfinished = os.path.join(parent, os.path.basename(target))
    os.makedirs(unfinished)
    yield unfinished
    names = _files_below(unfinished)
    for name in names:
      _flush(os.path.join(unfinished, name))
    if not paths.is_remote(target):
      os.replace(unfinished, target)
      return
    for name in sorted(names, key=lambda name: (name == last, name)):
      remote = f"{target}/{name}"
      paths.make_folder(os.path.dirname(remote))
      paths.copy(os.path.join(unfinished, name), remote)


@contextlib.contextmanager
def hidden_folder(target: str) -> Iterator[str]:
  """Yields an empty local folder to write `target` in, removed at the end.

  It is hidden and lies beside the target, or in the machine's folder for
  temporary files if the target has a scheme. The target's folder is made.
  """
  parent, name = paths.split(target)
  paths.make_folder(parent)
  if paths.is_remote(target):
    with tempfile.TemporaryDirectory(prefix="bert_tf_") as hidden:
      yield hidden
    return
  hidden = _hidden(target, _writer_suffix())
  paths.remove(hidden)
  try:
    os.makedirs(hidden)
  except OSError as error:
    raise OSError(f"cannot write {target}: {error.strerror}.") from error
  try:
    yield hidden
  finally:
    paths.remove(hidden)


def publish(path: str, target: str) -> None:
  """Moves a local file from a `hidden_folder` to its place in one step."""
  if paths.is_folder(target):
    raise IsADirectoryError(f"{target} is a folder; name a file to write.")
  _flush(path)
  if paths.is_remote(target):
    beside = _hidden(target, _writer_suffix())
    try:
      paths.copy(path, beside)
      paths.rename(beside, target)
    finally:
      paths.remove(beside)
  else:
    os.replace(path, target)


def remove_unfinished(target: str) -> None:
  """Removes what killed processes left of a file; a glob stands for several."""
  for path in paths.matches(_hidden(target, "tmp-*")):
    paths.remove(path)


def _hidden(target: str, suffix: str) -> str:
  """Returns `parent/.name.suffix` for `parent/name`."""
  parent, name = paths.split(target)
  return os.path.join(parent, f".{name}.{suffix}")


def _writer_suffix() -> str:
  """Returns what tells this process from others that write the same file."""
  # A cluster may build a shard twice at once, on two machines.
  return f"tmp-{socket.gethostname()}-{os.getpid()}"


def _files_below(parent: str) -> list[str]:
  """Returns the files in a local folder and its folders, relative to it."""
  return [
    os.path.relpath(os.path.join(where, name), parent)
    for where, _, names in os.walk(parent)
    for name in names
  ]


def _flush(path: str) -> None:
  """Has the system write a local file to the disk."""
  with open(path, "rb+") as opened:
    os.fsync(opened.fileno())
