"""How long a run trains: for a number of steps, or for a time."""

import time
from typing import Any

import keras
from keras import ops

from bert_tf import checkpoint_names, distribution, optimization
from bert_tf.modeling import Tensor
from bert_tf.training import config as training_config

_now = time.monotonic

# The first groups of steps, which hold compilation.
_NUM_COMPILING = 2


class TimedWarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
  """A warm-up and a linear decay to 0 that follow a clock instead of steps.

  With p the share of the time that is over, the learning rate is
  init_lr (1 - p). In the warm-up it is init_lr (p - q) / warmup_share, until
  p - q is warmup_share; q is the share that was over when steps began to follow
  one another. A first step with the rate that the clock says, after half a
  minute of compilation, would spoil a model for good. Whoever trains calls
  `set` before each group of steps.

  Attributes:
    seconds_done: of training so far, float32 variable [].
    state: what checkpoints hold of it, by name.

  Raises:
    ValueError: for a time or a share out of range.
  """

  def __init__(
    self, init_lr: float, train_seconds: float, warmup_share: float = 0.1
  ) -> None:
    if not train_seconds > 0:
      raise ValueError(f"train_seconds is {train_seconds}; more than 0.")
    if not 0 <= warmup_share < 1:
      raise ValueError(f"warmup_share is {warmup_share}; in [0, 1).")
    self.init_lr = init_lr
    self.train_seconds = train_seconds
    self.warmup_share = warmup_share
    self.seconds_done = self._variable(
      0.0, "float32", checkpoint_names.TRAIN_SECONDS
    )
    self.state = {checkpoint_names.TRAIN_SECONDS: self.seconds_done}
    # Where the clock was read, and how fast it has run since.
    self._step = self._variable(0, "int64", "clock_step")
    self._seconds_per_step = self._variable(0.0, "float32", "seconds_per_step")
    self._warmup_start = self._variable(0.0, "float32", "warmup_start")

  def _variable(self, value: float, dtype: str, name: str) -> keras.Variable:
    return keras.Variable(
      value,
      dtype=dtype,
      trainable=False,
      aggregation="only_first_replica",
      name=name,
    )

  def set(
    self,
    step: int,
    seconds_done: float,
    seconds_per_step: float,
    warmup_start: float,
  ) -> None:
    """Sets the clock.

    Args:
      step: updates done.
      seconds_done: seconds of training that these took.
      seconds_per_step: seconds that each of the next updates will take.
      warmup_start: seconds of training after which the warm-up began.
    """
    self._warmup_start.assign(warmup_start)
    self._step.assign(step)
    self.seconds_done.assign(seconds_done)
    self._seconds_per_step.assign(seconds_per_step)

  def __call__(self, step: Tensor) -> Tensor:
    """Returns the float32 learning rate of the update after `step` updates."""
    steps = ops.cast(ops.cast(step, "int64") - self._step, "float32")
    seconds = self.seconds_done + steps * self._seconds_per_step
    share = ops.clip(seconds / self.train_seconds, 0.0, 1.0)
    decayed = self.init_lr * (1.0 - share)
    if not self.warmup_share:
      return decayed
    warm = (seconds - self._warmup_start) / self.train_seconds
    warming = self.init_lr * warm / self.warmup_share
    return ops.where(warm < self.warmup_share, warming, decayed)

  def get_config(self) -> dict[str, Any]:
    """Returns the arguments."""
    return {
      "init_lr": self.init_lr,
      "train_seconds": self.train_seconds,
      "warmup_share": self.warmup_share,
    }


class Budget:
  """What ends a run, those before it in output_dir included: a number of steps.

  Attributes:
    num_steps: of the whole run, None while that is not known.
  """

  def __init__(self, num_train_steps: int | None) -> None:
    self.num_steps = num_train_steps

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
    return max(0, (self.num_steps or 0) - step)

  def seconds_left(self, step: int, seconds_per_step: float) -> float:
    """Returns how long the rest takes."""
    return self.steps_left(step) * seconds_per_step

  def describe(self, step: int) -> str:
    """Returns how far a run is, as in "20/100"."""
    return f"{step}/{self.num_steps}"


class TimeBudget(Budget):
  """Trains for a time, compilation, evaluations and saves included.

  The time of a killed run counts up to its last checkpoint. Processes go by
  the slowest clock among them.

  Args:
    schedule: the learning rate's; it holds the time that is over.
  """

  def __init__(self, schedule: TimedWarmupLinearDecay) -> None:
    super().__init__(num_train_steps=None)
    self._schedule = schedule
    self._seconds = 0.0
    self._start = 0.0
    self._num_counts = 0
    self._is_new = True
    self._warmup_start = 0.0
    self._seconds_per_step = 0.0

  def begin(self, step: int) -> None:
    """Starts the clock where the checkpoint left it."""
    self._seconds = float(self._schedule.seconds_done)
    self._start = _now() - self._seconds
    # A run that goes on has moments that are warm.
    self._is_new = step == 0
    self._warmup_start = self._seconds if self._is_new else 0.0
    self._schedule.set(step, self._seconds, 0.0, self._warmup_start)

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
    if self._num_counts == _NUM_COMPILING + 1:
      left = (total - self._seconds) / self._seconds_per_step
      self.num_steps = step + int(left)
    if self._is_new and self._num_counts <= _NUM_COMPILING:
      self._warmup_start = self._seconds
    self._schedule.set(
      step, self._seconds, self._seconds_per_step, self._warmup_start
    )

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


def schedule_of(
  config: training_config.TrainConfig,
) -> TimedWarmupLinearDecay | None:
  """Returns the schedule of a run for a time; None where steps are counted."""
  if not config.train_seconds:
    return None
  return TimedWarmupLinearDecay(config.learning_rate, config.train_seconds)


def of_run(
  config: training_config.TrainConfig,
  optimizer: optimization.AdamWeightDecayOptimizer,
) -> Budget:
  """Returns the budget that a config sets."""
  schedule = optimizer.schedule
  if isinstance(schedule, TimedWarmupLinearDecay):
    return TimeBudget(schedule)
  return Budget(config.num_train_steps)
