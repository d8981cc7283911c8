"""Exits quietly if the reader of stdout has closed it, as `| head` does.

Python ignores SIGPIPE, which sockets need, so the default action of the signal
cannot be restored for the whole process.
"""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator

# A shell's exit status for a program ended by SIGPIPE.
_STATUS = 128 + signal.SIGPIPE


@contextlib.contextmanager
def ends_with_reader() -> Iterator[None]:
  """Within this scope, exits if a write to stdout has no reader."""
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
