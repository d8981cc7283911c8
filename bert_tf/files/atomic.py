"""Text files that are whole or not there."""

import contextlib
import os
import socket
from collections.abc import Iterable

import tensorflow as tf


def write(path: str, pieces: Iterable[str]) -> None:
  """Writes a text file beside its place and moves it there when it is whole.

  Args:
    path: file to write.
    pieces: its text, in any pieces; a string is one character each, so give a
      list.

  Raises:
    tf.errors.OpError: if it cannot be written; what stood at `path` is kept.
  """
  unfinished = unfinished_path(path)
  try:
    with tf.io.gfile.GFile(unfinished, "w") as writer:
      for piece in pieces:
        writer.write(piece)
    tf.io.gfile.rename(unfinished, path, overwrite=True)
  except BaseException:
    with contextlib.suppress(tf.errors.OpError):
      tf.io.gfile.remove(unfinished)
    raise


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes a file of lines, given without their ends; as `write`."""
  write(path, (line + "\n" for line in lines))


def unfinished_path(path: str) -> str:
  """The hidden name that `path` has while this process writes it."""
  # A cluster may build a shard twice at once, on two machines.
  return _hidden_beside(path, f"tmp-{socket.gethostname()}-{os.getpid()}")


def remove_unfinished(path: str) -> None:
  """Removes what runs that were killed left of `path`."""
  for left in tf.io.gfile.glob(_hidden_beside(path, "tmp-*")):
    remove_if_there(left)


def _hidden_beside(path: str, suffix: str) -> str:
  """`folder/.name.suffix` for `folder/name`."""
  folder, name = os.path.split(path)
  return os.path.join(folder, f".{name}.{suffix}")


def remove_if_there(path: str) -> None:
  """Removes a file, which may not exist."""
  with contextlib.suppress(tf.errors.NotFoundError):
    tf.io.gfile.remove(path)
