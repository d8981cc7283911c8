"""`--train_minutes`: as many steps as fit into a time.

A new run measures its speed once and writes the number of its steps into
run.json. From then on it is a run of that many steps, so a resumed run ends
with the same weights as an uninterrupted one.
"""

import dataclasses
import statistics
import time

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from keras import ops

from bert_tf import distribution
from bert_tf.checkpoint import run_info
from bert_tf.model.tensor import Tensor
from bert_tf.training.config import TrainConfig
from bert_tf.training.step import TrainingStep

_now = time.monotonic

# TensorFlow traces and compiles in the first steps, and those after them are
# timed, but not for longer than a fraction of the whole time.
_NUM_COMPILING = 2
_NUM_TIMED = 10
_MAX_TIMED_FRACTION = 0.05


class PlannedWarmupLinearDecay(
  keras.optimizers.schedules.LearningRateSchedule  # type: ignore[misc]
):
  """A linear decay whose number of steps, a float32 variable, is set later.

  The first tenth of the steps is the warm-up.
  """

  def __init__(self, init_lr: float) -> None:
    self.init_lr = init_lr
    self.num_train_steps = keras.Variable(
      1.0,
      dtype="float32",
      trainable=False,
      aggregation="only_first_replica",
      name="num_train_steps",
    )

  def __call__(self, step: Tensor) -> Tensor:
    """Returns the float32 learning rate of the update after `step` updates."""
    fraction = ops.cast(step, "float32") / self.num_train_steps
    decayed = ops.maximum(1.0 - fraction, 0.0)
    return self.init_lr * ops.where(fraction < 0.1, 10.0 * fraction, decayed)


def count_steps(
  train_seconds: float, train_step: TrainingStep, batches: tf.data.Iterator
) -> int:
  """Takes and times a few steps on `batches`; returns how many more will fit.

  What the first steps compile counts as training time.
  """
  start = _now()
  seconds: list[float] = []
  while len(seconds) <= _NUM_COMPILING or (
    len(seconds) < _NUM_COMPILING + _NUM_TIMED
    and sum(seconds[_NUM_COMPILING:]) < _MAX_TIMED_FRACTION * train_seconds
  ):
    before = _now()
    np.asarray(train_step.run(batches, 1)["loss"][0])  # Waits for the step.
    seconds.append(_now() - before)
  pace = statistics.median(seconds[_NUM_COMPILING:])
  processes = distribution.all_gather_objects(
    {"pace": pace, "spent": _now() - start}
  )
  left = train_seconds - max(p["spent"] for p in processes)
  return max(0, int(left / max(p["pace"] for p in processes)))


def plan_steps(
  config: TrainConfig,
  step: int,
  is_new: bool,
  train_step: TrainingStep,
  variables: dict[str, keras.Variable],
  batches: tf.data.Iterator,
) -> int:
  """Returns the number of steps of a timed run and keeps it in run.json.

  Without a plan in run.json, steps are timed and undone; they only change
  `variables`. If train_minutes has changed since, the number changes in
  proportion. A plan without a checkpoint (`is_new`) is a leftover.
  """
  minutes = config.train_seconds / 60
  info = run_info.read_run(config.output_dir)
  assert info, "Only pre-training has a time, and its folder has a run.json."
  plan = info.training
  if not is_new and plan.num_train_steps and plan.train_minutes:
    num_steps = round(plan.num_train_steps * minutes / plan.train_minutes)
  else:
    logging.info("Loading records and timing a few steps.")
    values = [variable.numpy() for variable in variables.values()]
    num_more = count_steps(config.train_seconds, train_step, batches)
    for variable, value in zip(variables.values(), values, strict=True):
      variable.assign(value)
    num_steps = max(1, step + num_more)
    logging.info("Training %d steps to fill %g min.", num_steps, minutes)
  plan = dataclasses.replace(
    plan, num_train_steps=num_steps, train_minutes=minutes
  )
  if distribution.is_chief():
    info = dataclasses.replace(info, training=plan)
    run_info.write_json(config.output_dir, info)
  distribution.barrier()
  return num_steps
