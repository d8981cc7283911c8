"""Text files that are whole or not there."""

import contextlib
from collections.abc import Iterable

import tensorflow as tf

from bert_tf import features


def write(path: str, pieces: Iterable[str]) -> None:
  """Writes a text file beside its place and moves it there when it is whole.

  Args:
    path: file to write.
    pieces: its text, in any pieces; a string is one character each, so give a
      list.

  Raises:
    tf.errors.OpError: if it cannot be written; what stood at `path` is kept.
  """
  unfinished = features.unfinished_path(path)
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
