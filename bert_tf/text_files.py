"""Text files that are whole or not there."""

import contextlib
import os
from collections.abc import Iterable

import tensorflow as tf


def unfinished_path(path: str) -> str:
  """Where a file is while this process writes it."""
  return f"{path}.tmp-{os.getpid()}"


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
