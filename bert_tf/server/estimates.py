"""Estimates of the time that requests take."""

import asyncio
import collections
import statistics
import time
from collections.abc import Hashable, Mapping

# The speed of a function is the median over its last NUM_TIMED batches. It is
# unknown before _MIN_TIMED batches, because the first call may take seconds.
NUM_TIMED, _MIN_TIMED = 9, 3
# Seconds between measurements of the event loop's delay.
_DELAY_INTERVAL_S = 0.05


class Estimates:
  """Measures the speed of functions and the delay of the event loop.

  Attributes:
    loop_delay_s: seconds by which the event loop was late when last measured.
  """

  def __init__(self) -> None:
    # Seconds per input of the last batches, by name of the function.
    self._timed: dict[Hashable, collections.deque[float]] = {}
    self.loop_delay_s = 0.0

  def record(self, name: Hashable, num_inputs: int, seconds: float) -> None:
    """Records the time that a function took.

    Args:
      name: the function's name.
      num_inputs: number of inputs that it computed.
      seconds: its time.
    """
    timed = self._timed.setdefault(name, collections.deque(maxlen=NUM_TIMED))
    timed.append(seconds / num_inputs)

  def seconds(self, num_inputs: Mapping[Hashable, int]) -> float:
    """Estimates the seconds to compute inputs, from the last batches.

    A function with fewer than _MIN_TIMED batches counts as 0 seconds.

    Args:
      num_inputs: number of inputs by name of the function.
    """
    return sum(
      count * statistics.median(self._timed[name])
      for name, count in num_inputs.items()
      if len(self._timed.get(name, ())) >= _MIN_TIMED
    )

  async def measure_loop_delay(self) -> None:
    """Measures the delay of the event loop again and again, without end."""
    while True:
      start = time.monotonic()
      await asyncio.sleep(_DELAY_INTERVAL_S)
      self.loop_delay_s = time.monotonic() - start - _DELAY_INTERVAL_S
