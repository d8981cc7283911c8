"""Loads the weights that a run starts from.

These are the newest checkpoint of output_dir, else init_checkpoint, else random
values.
"""

import os
from collections.abc import Callable
from typing import TypeVar

import keras
import numpy as np
from absl import logging

from bert_tf import checkpoint_names, checkpoints
from bert_tf.files import errors
from bert_tf.layers import lora, mixed_precision
from bert_tf.training import adapters
from bert_tf.training import config as training_config

T = TypeVar("T")


def restore_for_training(
  model: keras.Model,
  optimizer: keras.optimizers.Optimizer,
  config: training_config.TrainConfig,
) -> int:
  """Resumes from the newest whole checkpoint, else loads init_checkpoint.

  Returns:
    The step of the checkpoint in output_dir; 0 without one.

  Raises:
    ValueError: if a checkpoint does not fit, or if all checkpoints of the
      folder are damaged.
  """

  def restore(path: str) -> int:
    step = resume(path, model, optimizer)
    logging.info("Resuming from %s, at step %d.", path, step)
    return step

  step = _load_newest_whole(config.output_dir, restore)
  if step is None:
    _initialize(model, config)
  return step or 0


def training_variables(
  model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> dict[str, keras.Variable]:
  """Returns the variables of a training checkpoint, by name."""
  state = {**optimizer.slots(), checkpoints.GLOBAL_STEP: optimizer.iterations}
  return {**lora.variables(model), **state}


def resume(
  path: str, model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> int:
  """Restores variables, moments and step; returns the step.

  The loss scale keeps its initial value if the run had another precision.

  Raises:
    ValueError: if variables are missing or have another shape.
    DamagedCheckpointError: if the checkpoint cannot be read to its end.
  """
  reader = checkpoints.CheckpointReader(path)
  variables = training_variables(model, optimizer)
  new = [name for name in variables if name not in reader.shapes]
  missing = [name for name in new if name not in mixed_precision.STATE]
  if missing and not checkpoint_names.parameters(missing):
    raise ValueError(
      f"{path} lacks {errors.join_names(missing, 3)}, so training cannot "
      "resume: it was saved without them, for example with another "
      "`lora_rank` or without `train_minutes`. Start from it with "
      "`init_checkpoint` and another `output_dir`."
    )
  checkpoint_names.check_fits(reader.path, reader.shapes, variables, missing)
  for name, variable in variables.items():
    if name not in new:
      variable.assign(reader.get(name))
  return int(reader.get(checkpoints.GLOBAL_STEP))


def load_for_inference(
  model: keras.Model, config: training_config.TrainConfig
) -> int:
  """Loads the newest checkpoint of output_dir, else init_checkpoint.

  A damaged newest checkpoint is an error, since the checkpoint before it is
  another model. init_checkpoint may lack a head: a warning then names the
  variables that are random.

  Returns:
    The step of the checkpoint in output_dir; 0 without one.

  Raises:
    ValueError: if a checkpoint does not fit, or if the folder's newest one is
      damaged or not finite.
  """

  def load(path: str) -> int:
    reader = checkpoints.CheckpointReader(path)
    if checkpoints.GLOBAL_STEP not in reader.shapes:
      raise ValueError(
        f"{path} lacks {checkpoints.GLOBAL_STEP}, so it is not a checkpoint of "
        "a run; give it as `init_checkpoint`, with another `output_dir`."
      )
    checkpoints.load_variables(reader, model)
    _log_loaded(path, config.init_checkpoint)
    return int(reader.get(checkpoints.GLOBAL_STEP))

  step = _load_newest(config.output_dir, load)
  if step is None:
    _warn_of_random(_initialize(model, config))
  return step or 0


def _log_loaded(path: str, init_checkpoint: str | None) -> None:
  """Logs the loaded checkpoint, and that it replaces another one."""
  same = [os.path.abspath(p) for p in (path, os.path.dirname(path))]
  if init_checkpoint and os.path.abspath(init_checkpoint) not in same:
    logging.info(
      "Using the weights of %s, not of `init_checkpoint` %s.",
      *(path, init_checkpoint),
    )
  else:
    logging.info("Using the weights of %s.", path)


def check_lora_alpha(
  output_dir: str, lora_rank: int | None, lora_alpha: float | None
) -> None:
  """Checks that a resumed run scales LoRA's updates as before.

  Raises:
    ValueError: if the newest whole checkpoint has another lora_alpha.
  """
  if not lora_rank:
    return
  alpha = np.float32(lora_rank if lora_alpha is None else lora_alpha)

  def check(path: str) -> None:
    reader = checkpoints.CheckpointReader(path)
    trained = reader.get(lora.ALPHA) if lora.ALPHA in reader.shapes else alpha
    if trained != alpha:
      raise ValueError(
        f"{path} was trained with lora_alpha {trained:g}, and this run has "
        f"{alpha:g}; set `lora_alpha={trained:g}`, or choose another "
        "`output_dir`."
      )

  _load_newest_whole(output_dir, check)


def check_has_head(
  output_dir: str, name: str, do_train: bool, num_outputs: int | None = None
) -> bool:
  """Checks that the run in a folder, if any, has the same task.

  Args:
    output_dir: folder of the run.
    name: a variable that only this task's models have.
    do_train: whether the run resumes from its newest whole checkpoint. If not,
      it uses the newest checkpoint, whole or not.
    num_outputs: size of the variable's first axis; None if it is constant.

  Returns:
    Whether the folder has a checkpoint.

  Raises:
    ValueError: if the checkpoint lacks the variable, has another number of
      outputs or is damaged.
  """

  def check(path: str) -> bool:
    head = checkpoints.CheckpointReader(path).shapes.get(name)
    if head is None:
      raise ValueError(
        f"{output_dir} holds another task's run: {path} has no {name}; choose "
        "another `output_dir`."
      )
    if num_outputs not in (None, head[0]):
      raise ValueError(
        f"{path} has a head of {head[0]} labels, this task needs "
        f"{num_outputs}; choose another `output_dir`."
      )
    return True

  start = _load_newest_whole if do_train else _load_newest
  return bool(start(output_dir, check))


def _load_newest(output_dir: str, load: Callable[[str], T]) -> T | None:
  """Returns `load(path)` of the newest checkpoint; None without one.

  Raises:
    ValueError: if this checkpoint is damaged or not finite. The message names
      an older one to use instead, if any.
  """
  path = checkpoints.find_latest(output_dir)
  if path is None:
    return None
  try:
    return load(path)
  except checkpoints.DamagedCheckpointError as error:
    older = checkpoints.usable_before(path)
    advice = (
      f"To use {older} instead, set `init_checkpoint={older}`, without "
      "`model` and with another `output_dir`."
      if older
      else f"{output_dir} has no older one to use: train again."
    )
    raise ValueError(f"{error.fault} {advice}") from error


def _load_newest_whole(output_dir: str, load: Callable[[str], T]) -> T | None:
  """Returns `load(path)` of the newest whole checkpoint; None without one.

  Only a resumed run may use an older checkpoint, since it repeats the lost
  steps.

  Raises:
    ValueError: if all checkpoints are damaged. The message names them.
  """
  damaged: list[checkpoints.DamagedCheckpointError] = []
  for path in checkpoints.list_checkpoints(output_dir):
    try:
      return load(path)
    except checkpoints.DamagedCheckpointError as error:
      logging.warning("%s Trying the checkpoint before it.", error.fault)
      damaged.append(error)
  if damaged:
    raise ValueError(
      f"no checkpoint of {output_dir} can be read: "
      f"{' '.join(error.fault for error in damaged)} Move the folder away to "
      "start again."
    )
  return None


def _initialize(
  model: keras.Model, config: training_config.TrainConfig
) -> list[str]:
  """Loads init_checkpoint and lora_adapter, if any.

  Returns:
    The names of the variables that keep their random values.
  """
  if config.init_checkpoint:
    adapter, encoder_only = config.lora_adapter, config.encoder_only
    # An adapter includes the head that was trained with it.
    missing = checkpoints.init_from_checkpoint(
      model, config.init_checkpoint, encoder_only or bool(adapter)
    )
    loaded = adapters.add(model, adapter, encoder_only) if adapter else ()
    return [name for name in missing if name not in loaded]
  logging.info("No checkpoint: starting from random values.")
  return [variable.path for variable in model.weights]


def _warn_of_random(untrained: list[str]) -> None:
  """Warns if an evaluation or prediction uses random values."""
  if not untrained:
    return
  logging.warning(
    "Untrained: %s. Results come from random weights. Train with `do_train`, "
    "or start from a trained checkpoint.",
    ", ".join(untrained),
  )
