"""Which weights a run starts from: newest checkpoint, given one, or random."""

from collections.abc import Callable
from typing import TypeVar

import keras
import numpy as np
from absl import logging

from bert_tf import checkpoints, heads
from bert_tf.layers import bilstm, lora
from bert_tf.training import adapters
from bert_tf.training import config as training_config

T = TypeVar("T")


def restore_for_training(
  model: keras.Model,
  optimizer: keras.optimizers.Optimizer,
  config: training_config.TrainConfig,
) -> int:
  """Resumes from the newest whole checkpoint, else starts from the given one.

  Returns:
    The number of steps done.

  Raises:
    ValueError: if a checkpoint does not fit, or if the folder has some and all
      are damaged.
  """

  def restore(path: str) -> int:
    step = checkpoints.restore(path, model, optimizer)
    logging.info("Resuming from %s, at step %d.", path, step)
    return step

  step = _from_newest_whole(config.output_dir, restore)
  if step is None:
    _initialize(model, config)
  return step or 0


def load_for_inference(
  model: keras.Model, config: training_config.TrainConfig
) -> int:
  """Loads the newest whole checkpoint, else the given one.

  The given one may lack a head, or there may be none: a warning names what is
  random then.

  Returns:
    The step of the checkpoint, 0 for the given one.

  Raises:
    ValueError: if a checkpoint does not fit, or if the folder has some and all
      are damaged.
  """

  def load(path: str) -> int:
    reader = checkpoints.CheckpointReader(path)
    if checkpoints.GLOBAL_STEP not in reader.shapes:
      raise ValueError(
        f"{path} lacks {checkpoints.GLOBAL_STEP}, so it is no checkpoint of a "
        "run; give it as `init_checkpoint`, with another `output_dir`."
      )
    bilstm.check_is_loaded(model, reader.path, reader.shapes)
    try:
      checkpoints.load_variables(reader, model)
    except checkpoints.NotFiniteError as error:
      # Not the one before it: that is not the model that was trained last.
      raise ValueError(str(error)) from error
    return int(reader.get(checkpoints.GLOBAL_STEP))

  step = _from_newest_whole(config.output_dir, load)
  if step is None:
    if config.init_checkpoint:
      start = checkpoints.CheckpointReader(config.init_checkpoint)
      bilstm.check_is_loaded(model, start.path, start.shapes)
    untrained = _initialize(model, config)
    _warn_of_random(model, untrained)
  return step or 0


def check_lora_alpha(
  output_dir: str, lora_rank: int | None, lora_alpha: float | None
) -> None:
  """Checks that a run that goes on multiplies LoRA's updates as before.

  Raises:
    ValueError: if its weights would be other ones than those it had.
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

  _from_newest_whole(output_dir, check)


def check_is_trained(
  output_dir: str,
  init_checkpoint: str | None,
  head: heads.Head,
  lora_adapter: str | None = None,
) -> None:
  """Checks that there is a trained model to evaluate or to predict with.

  Raises:
    ValueError: if output_dir has no checkpoint, and init_checkpoint is None or
      lacks the head.
  """
  if checkpoints.listed(output_dir):
    return
  if not init_checkpoint:
    raise ValueError(
      f"there is no trained model: {output_dir} has no checkpoint; set "
      "`do_train`, or `init_checkpoint` to a trained one."
    )
  shapes = dict(checkpoints.CheckpointReader(init_checkpoint).shapes)
  if lora_adapter:
    shapes |= adapters.open_adapter(lora_adapter).shapes
  missing = [name for name in head.shapes if name not in shapes]
  if missing:
    raise ValueError(
      f"{init_checkpoint} has no {missing[0]}: it was not trained for "
      f"{head.name}; set `do_train`."
    )


def check_has_head(
  output_dir: str, name: str, num_outputs: int | None = None
) -> bool:
  """Checks that the run of a folder, if there is one, is of the same task.

  Args:
    output_dir: folder of the run.
    name: of a variable that only this task's models have.
    num_outputs: size of its first axis; None if that is always the same.

  Returns:
    Whether the folder has a checkpoint.

  Raises:
    ValueError: if the newest whole checkpoint lacks the variable or has it with
      another number of outputs, or if all checkpoints are damaged.
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

  return bool(_from_newest_whole(output_dir, check))


def _from_newest_whole(output_dir: str, load: Callable[[str], T]) -> T | None:
  """Returns `load(path)` of the newest whole checkpoint; None without one.

  Raises:
    ValueError: if all are damaged; names them.
  """
  damaged: list[checkpoints.DamagedCheckpointError] = []
  for path in checkpoints.listed(output_dir):
    try:
      return load(path)
    except checkpoints.DamagedCheckpointError as error:
      logging.warning("%s; trying the one before it.", error)
      damaged.append(error)
  if damaged:
    raise ValueError(
      f"no checkpoint of {output_dir} can be read: "
      f"{'; '.join(map(str, damaged))}. Move the folder away to start again."
    )
  return None


def _initialize(
  model: keras.Model, config: training_config.TrainConfig
) -> list[str]:
  """Loads what is given; returns the names that stay random."""
  if config.init_checkpoint:
    adapter, encoder_only = config.lora_adapter, config.encoder_only
    # An adapter has the head that was trained with it.
    missing = checkpoints.init_from_checkpoint(
      model, config.init_checkpoint, encoder_only or bool(adapter)
    )
    loaded = adapters.add(model, adapter, encoder_only) if adapter else ()
    return [name for name in missing if name not in loaded]
  logging.info("No checkpoint: starting from random values.")
  return [variable.path for variable in model.weights]


def _warn_of_random(model: keras.Model, untrained: list[str]) -> None:
  """Warns that an evaluation or a prediction uses random values."""
  if not untrained:
    return
  is_all = len(untrained) == len(model.weights)
  logging.warning(
    "Untrained: %s; results are those of random values. Train with "
    "`do_train`, or start from a checkpoint that has been trained.",
    "the whole model" if is_all else ", ".join(untrained),
  )
