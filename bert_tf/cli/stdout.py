"""Ends a command quietly if the reader of its output has gone, as of `| head`.

Ignoring SIGPIPE, which Python does, is right for sockets, so the signal's
default cannot be restored for the whole process.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator

# Exit status of a program that the signal ended, in a shell.
_STATUS = 128 + signal.SIGPIPE


@contextlib.contextmanager
def ends_with_reader() -> Iterator[None]:
  """Within this scope a write to stdout without a reader ends the program."""
  try:
    try:
      yield
    finally:
      if sys.stdout is not None:
        sys.stdout.flush()
  except BrokenPipeError:
    if has_reader():
      raise
    # Python flushes stdout once more when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(_STATUS)


def has_reader() -> bool:
  """Returns False if the reader of stdout has closed its end."""
  poll = select.poll()
  poll.register(1, 0)
  return not poll.poll(0)
