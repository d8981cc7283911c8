"""Chooses the compilation mode of a run, by timing the step if necessary."""

import json
import os
import time
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import checkpoints, distribution
from bert_tf.files import atomic, json_files, paths
from bert_tf.training import compilation
from bert_tf.training import config as training_config
from bert_tf.training import step as step_lib

# The chosen mode, stored next to the checkpoints. Modes differ in the last bits
# of the weights, so a resumed run must stay in the mode of its first steps.
FILE = "use_xla.json"

# Steps of a run, and seconds left for it, below which neither timing nor
# compiling pays off. Compiling takes 5 to 40 seconds. Timing CLUSTERED costs a
# second compilation and five more slow steps.
_MIN_STEPS = 200
_MIN_SECONDS = 120.0
_MIN_SECONDS_FOR_CLUSTERED = 600.0

# Timed steps of each mode, after a first one that compiles.
_NUM_TIMED_STEPS = 4


def known_mode(
  config: training_config.TrainConfig,
  element_spec: Mapping[str, tf.TensorSpec],
) -> compilation.Mode | None:
  """Returns the mode of a run; None if it must be chosen by timing.

  Args:
    config: the run's settings.
    element_spec: shapes and dtypes of its batches.

  Raises:
    ValueError: if use_xla.json names no mode.
  """
  if config.use_xla is not None:
    return compilation.WHOLE if config.use_xla else compilation.PLAIN
  if distribution.has_accelerator():
    return compilation.WHOLE
  if config.num_train_steps < _MIN_STEPS:
    return compilation.PLAIN
  path = os.path.join(config.output_dir, FILE)
  # Without a checkpoint the file is a leftover of another run.
  if paths.exists(path) and checkpoints.list_checkpoints(config.output_dir):
    try:
      return compilation.mode_by_use_xla(
        json_files.read_object(path).get("use_xla")
      )
    except ValueError as error:
      raise ValueError(
        f"{path} names no compilation mode: {error} Remove the file to time "
        "the modes again."
      ) from error
  if config.deterministic:
    # Measured times differ between runs, and with them the mode and its bits.
    return compilation.PLAIN
  if all(spec.shape.is_fully_defined() for spec in element_spec.values()):
    return None
  logging.info(
    "Not using XLA, which would compile a program for each batch width."
  )
  return compilation.PLAIN


def choose_step(
  train_step: step_lib.TrainingStep,
  variables: Mapping[str, keras.Variable],
  batches: tf.data.Iterator,
  output_dir: str,
  seconds_left: Callable[[float], float],
) -> step_lib.TrainingStep:
  """Returns the step in its fastest mode; writes the mode to use_xla.json.

  Args:
    train_step: in the mode PLAIN.
    variables: all variables that a step changes. Their values are restored
      after the timing.
    batches: batches to time steps on.
    output_dir: folder of the run.
    seconds_left: returns the seconds that the rest of the run takes, given the
      seconds of a step.
  """
  values = [variable.numpy() for variable in variables.values()]
  steps: dict[compilation.Mode, step_lib.TrainingStep] = {}

  def step_in_mode(mode: compilation.Mode) -> Callable[[], object]:
    is_plain = mode is compilation.PLAIN
    step = train_step if is_plain else train_step.with_mode(mode)
    steps[mode] = step
    # Reading the loss waits for the step.
    return lambda: np.asarray(step.run(batches, 1)["loss"][0])

  mode = choose_mode(output_dir, seconds_left, step_in_mode)
  for variable, value in zip(variables.values(), values, strict=True):
    variable.assign(value)
  return steps[mode]


def choose_mode(
  output_dir: str,
  seconds_left: Callable[[float], float],
  step_in_mode: Callable[[compilation.Mode], Callable[[], object]],
) -> compilation.Mode:
  """Returns the fastest mode and writes it to use_xla.json.

  Modes that compile are not timed if the rest of the run is too short.

  Args:
    output_dir: folder of the run.
    seconds_left: see `choose_step`.
    step_in_mode: returns a function that takes one step in a mode.
  """
  plain = _time_step(step_in_mode(compilation.PLAIN))
  seconds: dict[compilation.Mode, float] = {compilation.PLAIN: plain}
  left = seconds_left(plain)
  if left >= _MIN_SECONDS:
    seconds[compilation.WHOLE] = _time_step(step_in_mode(compilation.WHOLE))
  if left >= _MIN_SECONDS_FOR_CLUSTERED:
    seconds[compilation.CLUSTERED] = _time_step(
      step_in_mode(compilation.CLUSTERED)
    )
  fastest = min(seconds, key=lambda mode: seconds[mode])
  times = {mode.time_key: round(1e3 * t, 2) for mode, t in seconds.items()}
  line = json.dumps({"use_xla": fastest.use_xla, **times})
  if distribution.is_chief():
    atomic.write_lines(os.path.join(output_dir, FILE), [line])
  distribution.barrier()  # The file exists before the first step.
  logging.info("Chose by `use_xla=auto`, with ms a step: %s", line)
  return fastest


def _time_step(take_step: Callable[[], object]) -> float:
  """Returns the seconds of a step.

  Takes the fastest step of each process, and of these times the longest.
  """
  times = []
  for _ in range(1 + _NUM_TIMED_STEPS):
    start = time.monotonic()
    take_step()
    times.append(time.monotonic() - start)
  processes = distribution.all_gather_objects({"seconds": min(times[1:])})
  return max(process["seconds"] for process in processes)
