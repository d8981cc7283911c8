"""Keeps notes of TensorFlow's C++ code, which no log level hides, off stderr.

TF_CPP_MIN_LOG_LEVEL hides some, but not those that come before the log is
initialized, nor an "error" that there is no GPU.
"""

import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator

# Lines that hold where nothing is wrong: notes, libraries that register twice,
# no GPU.
_NOISE = re.compile(
  b"^I\\d{4} |before absl::InitializeLog|Unable to register|already registered"
  b"|failed call to cuInit|oneDNN supports DT_INT64"
)


def drop_notes() -> None:
  """Drops notes from here to the process's end; Python's stderr stays as it is.

  A process of its own reads the lines, so that those of a crash are not lost.
  """
  reader, writer = os.pipe()
  if not os.fork():
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, signal.SIG_IGN)
    os.close(writer)
    with os.fdopen(reader, "rb") as lines:
      _pass_on(lines)
    os._exit(0)
  sys.stderr = os.fdopen(os.dup(2), "w", 1, errors="backslashreplace")
  os.dup2(writer, 2)
  os.close(reader)
  os.close(writer)


@contextlib.contextmanager
def without_notes() -> Iterator[None]:
  """A scope whose notes are dropped; its other lines appear at its end."""
  try:
    own = os.dup(2)
  except OSError:  # There is no stderr.
    yield
    return
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
      _pass_on(lines)


def _pass_on(lines: Iterator[bytes]) -> None:
  """Writes lines to stderr, but no notes."""
  for line in lines:
    if not _NOISE.search(line):
      os.write(2, line)
