"""The budget of a run: a number of steps, or a time."""

import time
from typing import Any

import keras
from keras import ops

from bert_tf import checkpoint_names, distribution, optimization
from bert_tf.tensor import Tensor
from bert_tf.training import config as training_config

_now = time.monotonic

# Number of first groups of steps in which TensorFlow traces and compiles.
_NUM_COMPILING = 2


class TimedWarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
  """A warm-up and a linear decay to 0 that follow a clock instead of steps.

  Let p be the share of the time that is over, and q the share that was over
  when compilation ended (0 in a resumed run). The learning rate is
  init_lr (p - q) / warmup_share while p - q < warmup_share, then
  init_lr (1 - p). Counted from 0 instead of q, the warm-up would be partly over
  at the first step: a sudden high rate, which can spoil a model for good.

  Call `set` before each group of steps.

  Args:
    init_lr: peak learning rate.
    train_seconds: seconds until the rate is 0.
    warmup_share: share of this time for the warm-up, in [0, 1).

  Attributes:
    seconds_done: float32 variable []. Seconds of training so far.
    state: the variables that checkpoints hold, by name.

  Raises:
    ValueError: if train_seconds or warmup_share is out of range.
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
    # The step of the last call of `set`, and the seconds of each step since.
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
      step: updates so far.
      seconds_done: seconds of training so far.
      seconds_per_step: expected seconds of each of the next updates.
      warmup_start: seconds of training before the warm-up began.
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
    """Returns the constructor's arguments by name."""
    return {
      "init_lr": self.init_lr,
      "train_seconds": self.train_seconds,
      "warmup_share": self.warmup_share,
    }


class Budget:
  """A budget of steps, including those of earlier runs in output_dir.

  Attributes:
    num_steps: steps of the whole run; None while unknown.
  """

  def __init__(self, num_train_steps: int | None) -> None:
    self.num_steps = num_train_steps

  def begin(self, step: int) -> None:
    """Starts the budget after `step` restored steps."""

  def count(self, step: int, seconds_per_step: float) -> None:
    """Counts a group of steps. Call it after each group.

    Args:
      step: steps so far.
      seconds_per_step: mean seconds of a step in this group.
    """

  def steps_left(self, step: int) -> int:
    """Returns the most steps before the next `count`; 0 if training is over."""
    return max(0, (self.num_steps or 0) - step)

  def seconds_left(self, step: int, seconds_per_step: float) -> float:
    """Returns the seconds until the end of the run."""
    return self.steps_left(step) * seconds_per_step

  def describe(self, step: int) -> str:
    """Returns the progress of a run, for example "20/100"."""
    return f"{step}/{self.num_steps}"


class TimeBudget(Budget):
  """A budget of time, including compilation, evaluations and saves.

  The time of a killed run counts up to its last checkpoint. All processes use
  the longest elapsed time among them.

  Args:
    schedule: learning-rate schedule, which holds the seconds so far.
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
    """Starts the clock at the seconds that the checkpoint holds."""
    self._seconds = float(self._schedule.seconds_done.numpy())
    self._start = _now() - self._seconds
    # A resumed run needs no new warm-up, since it restores Adam's moments.
    self._is_new = step == 0
    self._warmup_start = self._seconds if self._is_new else 0.0
    self._schedule.set(step, self._seconds, 0.0, self._warmup_start)

  def count(self, step: int, seconds_per_step: float) -> None:
    """Reads the clocks of all processes and sets the schedule's clock."""
    mine = {
      "seconds": _now() - self._start,
      "pace": seconds_per_step,
    }
    clocks = distribution.all_gather_objects(mine)
    total = self._schedule.train_seconds
    self._seconds = min(max(clock["seconds"] for clock in clocks), total)
    self._seconds_per_step = max(clock["pace"] for clock in clocks)
    self._num_counts += 1
    if not self.steps_left(step):
      self._seconds = total  # Less than half a step remains.
    if self._num_counts == _NUM_COMPILING + 1:
      left = (total - self._seconds) / self._seconds_per_step
      self.num_steps = step + int(left)
    if self._is_new and self._num_counts <= _NUM_COMPILING:
      self._warmup_start = self._seconds
    self._schedule.set(
      step, self._seconds, self._seconds_per_step, self._warmup_start
    )

  def steps_left(self, step: int) -> int:
    """Returns the steps that fit into the remaining time, rounded.

    While the seconds of a step are unknown, returns 1 if time remains. Those of
    the first groups include compilation, so they say nothing.
    """
    left = self._schedule.train_seconds - self._seconds
    if self._num_counts <= _NUM_COMPILING:
      return int(left > 0)
    return round(left / self._seconds_per_step)

  def seconds_left(self, step: int, seconds_per_step: float) -> float:
    """Returns the remaining seconds."""
    return self._schedule.train_seconds - self._seconds

  def describe(self, step: int) -> str:
    """Returns the step and the elapsed share of the time."""
    total = self._schedule.train_seconds
    return f"{step} ({self._seconds / total:.1%} of {total / 60:g} minutes)"


def create_schedule(
  config: training_config.TrainConfig,
) -> TimedWarmupLinearDecay | None:
  """Returns the schedule of a timed run; None for a budget of steps."""
  if not config.train_seconds:
    return None
  return TimedWarmupLinearDecay(config.learning_rate, config.train_seconds)


def create_budget(
  config: training_config.TrainConfig,
  optimizer: optimization.AdamWeightDecayOptimizer,
) -> Budget:
  """Returns a TimeBudget for a timed schedule, else a Budget of steps."""
  schedule = optimizer.schedule
  if isinstance(schedule, TimedWarmupLinearDecay):
    return TimeBudget(schedule)
  return Budget(config.num_train_steps)
