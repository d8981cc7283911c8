"""SIGTERM and Ctrl-C as requests to stop, which a loop polls."""

import signal
import threading
from typing import Any

from absl import logging


class StopSignals:
  """Records SIGTERM and Ctrl-C instead of ending; a second one ends.

  Attributes:
    received: name of the signal, "" before one came.
  """

  def __init__(self) -> None:
    self.received = ""
    self._handlers: dict[int, Any] = {}

  def __enter__(self) -> "StopSignals":
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGINT):
        self._handlers[number] = signal.signal(number, self._record)
    return self

  def __exit__(self, *unused_error: object) -> None:
    for number, handler in self._handlers.items():
      signal.signal(number, handler)

  def _record(self, number: int, unused_frame: object) -> None:
    self.received = signal.Signals(number).name
    logging.info("%s: saving, then stopping.", self.received)
    signal.signal(number, self._handlers[number])
