"""How long a run trains: for a number of steps, or for a time."""

import time
from typing import Protocol

from bert_tf import distribution, optimization
from bert_tf.training import config as training_config

_now = time.monotonic


class Budget(Protocol):
  """What ends a run, those before it in the same output_dir included."""

  def begin(self, step: int) -> None:
    """Is called once `step` steps are restored."""

  def count(self, step: int, seconds_per_step: float) -> None:
    """Is called after each group of steps.

    Args:
      step: steps done.
      seconds_per_step: of that group.
    """

  def steps_left(self, step: int) -> int:
    """Returns how many steps to take at most before `count`; 0 at the end."""

  def seconds_left(self, step: int, seconds_per_step: float) -> float:
    """Returns how long the rest takes."""

  def describe(self, step: int) -> str:
    """Returns how far a run is, as in "20/100"."""

  @property
  def num_steps(self) -> int | None:
    """The steps of the whole run, None while that is not known."""


class StepBudget:
  """Trains for a number of steps; see Budget."""

  def __init__(self, num_train_steps: int) -> None:
    self.num_steps = num_train_steps

  def begin(self, step: int) -> None:
    """Needs nothing."""

  def count(self, step: int, seconds_per_step: float) -> None:
    """Needs nothing."""

  def steps_left(self, step: int) -> int:
    """Returns the steps that are left."""
    return max(0, self.num_steps - step)

  def seconds_left(self, step: int, seconds_per_step: float) -> float:
    """Returns how long the rest takes."""
    return self.steps_left(step) * seconds_per_step

  def describe(self, step: int) -> str:
    """Returns the step and the number of all."""
    return f"{step}/{self.num_steps}"


class TimeBudget:
  """Trains for a time, compilation, evaluations and saves included.

  The time of a killed run counts up to its last checkpoint. Processes go by
  the slowest clock among them.

  Args:
    schedule: the learning rate's; it holds the time that is over.
  """

  def __init__(self, schedule: optimization.TimedWarmupLinearDecay) -> None:
    self.num_steps: int | None = None
    self._schedule = schedule
    self._seconds = 0.0
    self._start = 0.0
    self._num_counts = 0
    self._seconds_per_step = 0.0

  def begin(self, step: int) -> None:
    """Starts the clock where the checkpoint left it."""
    self._seconds = float(self._schedule.seconds_done)
    self._start = _now() - self._seconds
    self._schedule.set(step, self._seconds, 0.0)

  def count(self, step: int, seconds_per_step: float) -> None:
    """Reads the clock and sets the learning rate by it."""
    mine = {
      "seconds": _now() - self._start,
      "pace": seconds_per_step,
    }
    found = distribution.all_gather_objects(mine)
    total = self._schedule.train_seconds
    self._seconds = min(max(one["seconds"] for one in found), total)
    self._seconds_per_step = max(one["pace"] for one in found)
    if not self.steps_left(step):
      self._seconds = total  # Less than half a step is left.
    self._num_counts += 1
    if self._num_counts == 3:  # The first two hold compilation.
      left = (total - self._seconds) / self._seconds_per_step
      self.num_steps = step + int(left)
    self._schedule.set(step, self._seconds, self._seconds_per_step)

  def steps_left(self, step: int) -> int:
    """Returns the steps that fit in what is left, rounded."""
    left = self._schedule.train_seconds - self._seconds
    if not self._seconds_per_step:
      return int(left > 0)
    return round(left / self._seconds_per_step)

  def seconds_left(self, step: int, seconds_per_step: float) -> float:
    """Returns how long the rest takes."""
    return self._schedule.train_seconds - self._seconds

  def describe(self, step: int) -> str:
    """Returns the step and the share of the time that is over."""
    total = self._schedule.train_seconds
    return f"{step} ({self._seconds / total:.1%} of {total / 60:g} minutes)"


def of_run(
  config: training_config.TrainConfig,
  optimizer: optimization.AdamWeightDecayOptimizer,
) -> Budget:
  """Returns the budget that a config sets."""
  schedule = optimizer.schedule
  if isinstance(schedule, optimization.TimedWarmupLinearDecay):
    return TimeBudget(schedule)
  return StepBudget(config.num_train_steps)
