"""Removes the notes of other packages from stderr.

TF_CPP_MIN_LOG_LEVEL does not hide the notes that TensorFlow's C++ code writes
before its log is initialized, nor its "error" that there is no GPU. Worker
processes of Apache Beam log to the stderr that they inherit.
"""

import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator

import bert_tf

# Matches lines that appear although nothing is wrong.
_NOISE = re.compile(
  # TensorFlow: notes, libraries registered twice, no GPU.
  r"^I\d{4} |before absl::InitializeLog|Unable to register|already registered"
  "|failed call to cuInit|oneDNN supports DT_(INT64|HALF)"
  # LiteRT's converter, about options that TensorFlow passes, and interpreter.
  "|Ignored (output_format|drop_control_dependency)"
  "|^INFO: Created TensorFlow Lite"
  # Apache Beam: notes of its workers, missing packages of Google Cloud, a
  # folder that local workers do not have.
  r"|^INFO:[\w.]+:|Failed to import GCSFileSystem|apitools not found"
  "|No semi_persistent_directory found"
)

# Guards the process's stderr while `without_notes` replaces it.
_lock = threading.RLock()
_are_dropped = False  # Set by `drop_notes`.


def drop_notes() -> None:
  """Drops other packages' notes from stderr until the process ends.

  Text that Python writes to `sys.stderr` is not filtered.

  A separate process filters the lines, so that the last lines before a crash
  are not lost. Without fork, on Windows, `without_notes` filters its scopes.
  """
  global _are_dropped
  if not hasattr(os, "fork"):
    return
  _are_dropped = True
  reader, writer = os.pipe()
  if not os.fork():
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, signal.SIG_IGN)
    os.close(writer)
    with os.fdopen(reader, "rb") as lines:
      _write_filtered(lines)
    os._exit(0)
  sys.stderr = os.fdopen(os.dup(2), "w", 1, errors="backslashreplace")
  os.dup2(writer, 2)
  os.close(reader)
  os.close(writer)


def shows_notes() -> bool:
  """Returns whether no filter is needed: one is active, or notes are wanted."""
  from absl import logging as absl_logging

  return _are_dropped or bert_tf.SHOWS_NOTES or absl_logging.level_debug()


@contextlib.contextmanager
def without_notes() -> Iterator[None]:
  """Drops the notes of this scope. Other lines appear when the scope ends."""
  if shows_notes():
    yield
    return
  with _lock:
    try:
      own = os.dup(2)
    except OSError:  # There is no stderr.
      yield
      return
    with _replace_stderr(own):
      yield


@contextlib.contextmanager
def _replace_stderr(own: int) -> Iterator[None]:
  """Replaces stderr by a file in this scope. `own` is a copy of stderr."""
  with tempfile.TemporaryFile() as lines:
    sys.stderr.flush()
    os.dup2(lines.fileno(), 2)
    try:
      yield
    finally:
      sys.stderr.flush()
      os.dup2(own, 2)
      os.close(own)
      lines.seek(0)
      _write_filtered(lines)


def _write_filtered(lines: Iterator[bytes]) -> None:
  for line in lines:
    if not _NOISE.search(line.decode("utf-8", "replace")):
      os.write(2, line)


def is_not_noise(record: logging.LogRecord) -> bool:
  """Returns False for noise of other packages. A filter for log handlers."""
  return record.name == "absl" or not _NOISE.search(record.getMessage())


@contextlib.contextmanager
def without_tensorflow_log() -> Iterator[None]:
  """Limits the logs of absl and TensorFlow to warnings in this scope."""
  from absl import logging as absl_logging

  verbosity = absl_logging.get_verbosity()
  logger = logging.getLogger("tensorflow")
  level = logger.level
  absl_logging.set_verbosity(absl_logging.WARNING)
  logger.setLevel(logging.WARNING)
  try:
    yield
  finally:
    absl_logging.set_verbosity(verbosity)
    logger.setLevel(level)
