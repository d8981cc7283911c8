"""Loads the weights that a run starts from."""

import keras
from absl import logging

from bert_tf.checkpoint import checkpoint_names, checkpoints
from bert_tf.files import errors, messages
from bert_tf.model.layers import lora, mixed_precision
from bert_tf.training import adapters
from bert_tf.training.config import TrainConfig
from bert_tf.training.update import Update


def restore_for_training(
  model: keras.Model,
  update: Update,
  config: TrainConfig,
  start: checkpoints.CheckpointReader | None = None,
) -> int:
  """Resumes from the newest whole checkpoint, else loads init_checkpoint.

  `start` reads init_checkpoint, if that is open already.
  Returns the step of the checkpoint in output_dir; 0 without one.
  """
  damage = None
  for path in checkpoints.list_checkpoints(config.output_dir):
    try:
      step = resume(path, model, update)
      logging.info("Resuming from %s, at step %d.", path, step)
      return step
    except errors.DamagedFileError as error:
      # Only training may use an older checkpoint, as it repeats the lost steps.
      logging.warning("%s Trying the checkpoint before it.", error)
      damage = error
  if damage:
    raise damage
  _initialize(model, config, start)
  return 0


def training_variables(
  model: keras.Model, update: Update
) -> dict[str, keras.Variable]:
  """Returns the variables of a training checkpoint, by name."""
  return {**lora.variables(model), **update.variables()}


def resume(path: str, model: keras.Model, update: Update) -> int:
  """Restores variables, slots and step; returns the step.

  The loss scale keeps its initial value if the run had another precision.
  Raises ValueError if the checkpoint does not fit the model or had another
  lora_alpha, and DamagedFileError if it cannot be read to its end.
  """
  reader = checkpoints.CheckpointReader(path)
  variables, state = training_variables(model, update), update.variables()
  new = [name for name in variables if name not in reader.shapes]
  missing = [name for name in new if name not in mixed_precision.STATE]
  if missing and state.keys() >= {*missing}:
    raise ValueError(
      f"{path} lacks {messages.join_names(missing, 3)} of the optimizer, so "
      "training cannot resume; give it as `init_checkpoint` to a run in "
      "another `output_dir`."
    )
  checkpoint_names.check_fits(reader.path, reader.shapes, variables, missing)
  alpha = lora.tensors(model).get(lora.ALPHA)
  if alpha is not None and lora.ALPHA in reader.shapes:
    trained = float(reader.get(lora.ALPHA))
    now = float(keras.ops.convert_to_numpy(alpha))
    if trained != now:
      raise ValueError(
        f"{path} was trained with lora_alpha {trained:g}, not {now:g}."
      )
  for name, variable in variables.items():
    if name not in new:
      variable.assign(reader.get(name))
  return int(reader.get(checkpoints.GLOBAL_STEP))


def load_for_inference(
  model: keras.Model,
  config: TrainConfig,
  start: checkpoints.CheckpointReader | None = None,
) -> int:
  """Loads the newest checkpoint of output_dir, else init_checkpoint.

  A warning names variables that init_checkpoint lacks, such as a head. A
  corrupt checkpoint is refused, since the one before it is another model.
  Returns the step of the checkpoint in output_dir; 0 without one.
  """
  path = checkpoints.find_latest(config.output_dir)
  if path is None:
    if untrained := _initialize(model, config, start):
      logging.warning(
        "Results are random, since %s are untrained; set `do_train`.",
        ", ".join(untrained),
      )
    return 0
  reader = checkpoints.CheckpointReader(path)
  if checkpoints.GLOBAL_STEP not in reader.shapes:
    raise ValueError(
      f"{path} lacks {checkpoints.GLOBAL_STEP}, so it is not from a run; give "
      "it as `init_checkpoint`, with another `output_dir`."
    )
  checkpoints.load_variables(reader, model)
  step = int(reader.get(checkpoints.GLOBAL_STEP))
  logging.info("Using the weights of %s.", path)
  return step


def _initialize(
  model: keras.Model,
  config: TrainConfig,
  start: checkpoints.CheckpointReader | None,
) -> list[str]:
  """Loads init_checkpoint; returns what keeps its random values."""
  if config.init_checkpoint:
    adapter, encoder_only = config.lora_adapter, config.encoder_only
    # An adapter includes the head that was trained with it.
    prefix = "bert/" if encoder_only or adapter else ""
    reader = start or checkpoints.CheckpointReader(config.init_checkpoint)
    missing = checkpoints.load_variables(reader, model, "bert/", prefix)
    num_all = len(model.weights)
    restored = f"{num_all - len(missing)} of {num_all} variables restored"
    untrained = f"; untrained: {', '.join(missing)}" if missing else ""
    logging.info(f"{reader.path}: {restored}{untrained}.")
    loaded = (
      adapters.add_adapter(model, adapter, encoder_only) if adapter else ()
    )
    return [name for name in missing if name not in loaded]
  logging.info("No checkpoint: starting from random values.")
  return [variable.path for variable in model.weights]
