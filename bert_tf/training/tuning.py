"""What XLA compiles of the training step, where the run is to find out."""

import json
import os
import time
from collections.abc import Callable, Mapping

import tensorflow as tf
from absl import logging

from bert_tf import checkpoints, distribution
from bert_tf.files import atomic, json_files, paths
from bert_tf.training import config as training_config
from bert_tf.training.step import Form

# Beside the checkpoints: a resumed run takes the steps in the same form.
FILE = "use_xla.json"

# Fewer steps are not worth a measurement, nor is less time worth compiling,
# which takes 5 to 40 seconds; a second time, and five slow steps more.
_MIN_STEPS = 200
_MIN_SECONDS = 120.0
_MIN_SECONDS_FOR_PIECES = 600.0

# Of each form, after one that is left out.
_NUM_TIMED_STEPS = 4

# What the file calls their times.
_NAMES = {
  Form.PLAIN: "plain_ms",
  Form.PIECES: "pieces_ms",
  Form.WHOLE: "compiled_ms",
}


def known(
  config: training_config.TrainConfig,
  element_spec: Mapping[str, tf.TensorSpec],
) -> Form | None:
  """Returns the choice as far as it is made, None if it is to be measured.

  Args:
    config: of the run.
    element_spec: of the batches.
  """
  if config.use_xla is not None:
    return Form(config.use_xla)
  if distribution.has_accelerator():
    return Form.WHOLE
  if config.num_train_steps < _MIN_STEPS:
    return Form.PLAIN
  path = os.path.join(config.output_dir, FILE)
  # Without a checkpoint it is of another run.
  if paths.exists(path) and checkpoints.listed(config.output_dir):
    try:
      return Form(json_files.read_object(path).get("use_xla"))
    except ValueError as error:
      raise ValueError(
        f"{path} names no form of the training step: {error} Remove it to have "
        "them timed again."
      ) from error
  if all(spec.shape.is_fully_defined() for spec in element_spec.values()):
    return None
  logging.info("Not using XLA: it would compile for each width of a batch.")
  return Form.PLAIN


def compiles_widths(config: training_config.TrainConfig) -> bool:
  """Whether XLA compiles a program for each width of a batch."""
  return bool(config.use_xla) or distribution.has_accelerator()


def measure(
  output_dir: str,
  seconds_left: Callable[[float], float],
  step_in_form: Callable[[Form], Callable[[], object]],
) -> Form:
  """Returns the fastest form of the step, and writes it into the run's folder.

  It is the plain one where the rest of the run is too short to compile.

  Args:
    output_dir: folder of the run.
    seconds_left: returns how long the rest of the run takes, given the seconds
      of a step.
    step_in_form: returns what takes a step in a form; asked for PLAIN first.
  """
  plain = _seconds(step_in_form(Form.PLAIN))
  seconds = {Form.PLAIN: plain}
  left = seconds_left(plain)
  if left >= _MIN_SECONDS:
    seconds[Form.WHOLE] = _seconds(step_in_form(Form.WHOLE))
  if left >= _MIN_SECONDS_FOR_PIECES:
    seconds[Form.PIECES] = _seconds(step_in_form(Form.PIECES))
  form = min(seconds, key=lambda form: seconds[form])
  found = {_NAMES[form]: round(1e3 * t, 2) for form, t in seconds.items()}
  line = json.dumps({"use_xla": form.value, **found})
  if distribution.is_chief():
    atomic.write_lines(os.path.join(output_dir, FILE), [line])
  distribution.barrier()  # Before a step is taken.
  logging.info("Chose by `use_xla=auto`, with ms a step: %s", line)
  return form


def _seconds(take_step: Callable[[], object]) -> float:
  """Returns the least seconds of a step, of the slowest process."""
  times = []
  for _ in range(1 + _NUM_TIMED_STEPS):
    start = time.monotonic()
    take_step()
    times.append(time.monotonic() - start)
  # The first one compiles.
  found = distribution.all_gather_objects({"seconds": min(times[1:])})
  return max(one["seconds"] for one in found)
