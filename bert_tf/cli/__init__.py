"""The commands: flags, a config, one library call."""

import os
import signal
import types

INTERRUPTED = 128 + signal.SIGINT  # A shell's status of a program it ended.


def _interrupt(number: int, frame: types.FrameType | None) -> None:
  """Raises KeyboardInterrupt, but ends the process during an import.

  TensorFlow and Keras turn an exception in their import into others.
  """
  while frame:
    if frame.f_code.co_filename.startswith("<frozen importlib"):
      os.write(2, b"interrupted\n")
      os._exit(INTERRUPTED)
    frame = frame.f_back
  raise KeyboardInterrupt


# Here, because the imports of a command come before its first line.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
  signal.signal(signal.SIGINT, _interrupt)
