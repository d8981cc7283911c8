"""Where a run starts: the newest checkpoint, the given one, random values."""

import keras
from absl import logging

from bert_tf import checkpoints


def restore_for_training(
  model: keras.Model,
  optimizer: keras.optimizers.Optimizer,
  output_dir: str,
  init_checkpoint: str | None,
) -> int:
  """Brings back the newest whole checkpoint, else starts from the given one.

  Args:
    model: built.
    optimizer: built on the variables that are trained.
    output_dir: folder of the run.
    init_checkpoint: prefix of a checkpoint, or None.

  Returns:
    The number of steps done.

  Raises:
    ValueError: if a checkpoint does not fit, or if the folder has some and
      all are damaged.
  """
  damaged = None
  for path in checkpoints.listed(output_dir):
    try:
      step = checkpoints.restore(path, model, optimizer)
      logging.info("Resuming from %s, at step %d.", path, step)
      return step
    except checkpoints.DamagedCheckpointError as error:
      logging.warning("%s; trying the one before it.", error)
      damaged = error
  if damaged:
    raise ValueError(
      f"{damaged} No older checkpoint in {output_dir} is whole; move the "
      "folder away to start again."
    )
  _initialize(model, init_checkpoint)
  return 0


def load_for_inference(
  model: keras.Model, output_dir: str, init_checkpoint: str | None
) -> int:
  """Loads the newest whole checkpoint, else the given one; says if none.

  Args:
    model: built.
    output_dir: folder of the run.
    init_checkpoint: prefix of a checkpoint, or None.

  Returns:
    The step of the checkpoint, 0 for the given one.

  Raises:
    ValueError: if a checkpoint does not fit.
  """
  for path in checkpoints.listed(output_dir):
    try:
      reader = checkpoints.CheckpointReader(path)
      _warn_of(model, checkpoints.load_variables(reader, model))
      return int(reader.get(checkpoints.GLOBAL_STEP))
    except checkpoints.DamagedCheckpointError as error:
      logging.warning("%s; trying the one before it.", error)
  _warn_of(model, _initialize(model, init_checkpoint))
  return 0


def _initialize(model: keras.Model, init_checkpoint: str | None) -> list[str]:
  """Loads init_checkpoint, if any; returns the names that stay random."""
  if init_checkpoint:
    return checkpoints.init_from_checkpoint(model, init_checkpoint)
  logging.info("No checkpoint: starting from random values.")
  return [variable.path for variable in model.weights]


def _warn_of(model: keras.Model, untrained: list[str]) -> None:
  """Says that what is evaluated or predicted comes of random values."""
  if not untrained:
    return
  is_all = len(untrained) == len(model.weights)
  logging.warning(
    "Untrained: %s; results are those of random values. Train with "
    "--do_train, or start from a checkpoint that has been trained.",
    "the whole model" if is_all else ", ".join(untrained),
  )
