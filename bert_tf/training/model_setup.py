"""Builds the model and the optimizer of a run from its TrainConfig."""

import random
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from bert_tf import optimization
from bert_tf.layers import lora, mixed_precision
from bert_tf.model_folder import run_info
from bert_tf.training import budget, update
from bert_tf.training import config as training_config


def build_model(
  model_fn: Callable[[], keras.Model], config: training_config.TrainConfig
) -> keras.Model:
  """Returns a model with random values, set up for training.

  `model_fn` makes the model and builds all its variables.
  """
  mixed_precision.check_devices(config.precision)
  mixed_precision.set_tf32(config.precision)
  if config.deterministic:
    # There is no public way back. An operation without a deterministic form
    # raises UnimplementedError when it runs.
    tf.config.experimental.enable_op_determinism()
  # Keras' initializers draw their seeds from Python's global generator.
  generator_state = random.getstate()
  random.seed(config.seed)
  try:
    with mixed_precision.policy_scope(config.precision):
      model = model_fn()
      if config.lora_rank:
        lora.enable(model, config.lora_rank, config.lora_alpha)
  finally:
    random.setstate(generator_state)
  optimization.freeze(model.weights, config.freeze_layers)
  if config.recompute:
    model.bert.encoder.recompute = True
  return model


def arithmetic_fields(
  config: training_config.TrainConfig,
  info: run_info.RunInfo | None,
  do_train: bool,
) -> dict[str, Any]:
  """Returns the fields of run.json for the arithmetic of the last training.

  A run may be resumed with another arithmetic, which the log then names.
  """
  fields = {}
  for name in ("precision", "deterministic"):
    before, now = getattr(info, name, None), getattr(config, name)
    fields[name] = now if do_train else before
    if do_train and before not in (None, now):
      logging.info(
        "This run was trained with %s=%s and continues with %s.",
        *(name, before, now),
      )
  return fields


def create_update(
  config: training_config.TrainConfig,
) -> tuple[update.Update, budget.PlannedWarmupLinearDecay | None]:
  """Returns the update of a run, and its schedule if the steps are planned."""
  planned = None
  if config.train_seconds:
    planned = budget.PlannedWarmupLinearDecay(config.learning_rate)
  optimizer = config.optimizer
  if isinstance(optimizer, str):
    optimizer = optimization.create_optimizer(
      config.learning_rate,
      config.num_train_steps,
      config.num_warmup_steps,
      optimizer,
      planned,
    )
  is_scaled = config.precision == "float16"
  scale = mixed_precision.LossScale() if is_scaled else None
  return update.Update(optimizer, scale), planned
