"""Times functions in turn, so that other work slows down all of them."""

import time
from collections.abc import Callable, Mapping


def measure_in_turn(
  calls: Mapping[str, Callable[[], object]], num_rounds: int
) -> dict[str, list[float]]:
  """Returns the seconds of `num_rounds` calls of each function, by name.

  One more call of each function comes first. It may compile and is not timed.
  """
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  for number in range(num_rounds + 1):
    for name, call in calls.items():
      start = time.perf_counter()
      call()
      if number:
        seconds[name].append(time.perf_counter() - start)
  return seconds
