"""SIGTERM and Ctrl-C as a wish to stop that a loop answers when it can."""

import signal
import threading

from absl import logging


class StopSignals:
  """Notes SIGTERM and Ctrl-C instead of dying of them; a second one kills.

  Attributes:
    received: the signal's name, or "".
  """

  def __init__(self) -> None:
    self.received = ""
    self._handlers = {}

  def __enter__(self) -> "StopSignals":
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGINT):
        self._handlers[number] = signal.signal(number, self._note)
    return self

  def __exit__(self, *unused_error: object) -> None:
    for number, handler in self._handlers.items():
      signal.signal(number, handler)

  def _note(self, number: int, unused_frame: object) -> None:
    self.received = signal.Signals(number).name
    logging.info("%s: saving, then stopping.", self.received)
    signal.signal(number, self._handlers[number])
