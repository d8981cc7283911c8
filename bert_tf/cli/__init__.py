"""The commands: flags, a config, one library call."""

import os
import signal
import sys
import types

INTERRUPTED = 128 + signal.SIGINT  # A shell's status of a program it ended.

# Whether no command of this process has begun its work.
is_starting = True


def _interrupt(number: int, frame: types.FrameType | None) -> None:
  """Raises KeyboardInterrupt, but ends the imports of a start at once.

  TensorFlow and Keras turn an exception in their import into others.
  """
  imported = (sys.modules.get(name) for name in ("tensorflow", "keras"))
  specs = [module.__spec__ for module in imported if module]
  if is_starting or any(getattr(s, "_initializing", False) for s in specs):
    while frame:
      if frame.f_code.co_filename.startswith("<frozen importlib"):
        os.write(2, b"interrupted\n")
        os._exit(INTERRUPTED)
      frame = frame.f_back
  raise KeyboardInterrupt


# Here, because the imports of a command come before its first line.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
  signal.signal(signal.SIGINT, _interrupt)
