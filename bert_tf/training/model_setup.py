"""Builds the model and the optimizer of a run from its TrainConfig."""

import contextlib
import random
from collections.abc import Callable, Iterator

import keras

from bert_tf import distribution, optimization
from bert_tf.layers import lora, mixed_precision
from bert_tf.training import budget
from bert_tf.training import config as training_config


def build_model(
  model_fn: Callable[[], keras.Model], config: training_config.TrainConfig
) -> keras.Model:
  """Returns a model with random values, set up for training.

  Sets up the precision, LoRA, frozen layers and gradient checkpointing.

  Args:
    model_fn: makes the model and builds all its variables.
    config: how to train.

  Raises:
    ValueError: if the devices lack the precision, or if the model has no
      encoder for LoRA or gradient checkpointing.
  """
  mixed_precision.check_devices(config.precision)
  with (
    mixed_precision.policy_scope(config.precision),
    _initial_values(config.seed),
  ):
    model = model_fn()
    distribution.hide_first_notes()
    if config.lora_rank:
      lora.enable(model, config.lora_rank, config.lora_alpha)
  optimization.freeze(model.weights, config.freeze_layers)
  if config.recompute:
    _checkpoint_gradients(model)
  return model


def create_optimizer(
  config: training_config.TrainConfig,
) -> optimization.AdamWeightDecayOptimizer:
  """Returns the optimizer of a run, with its schedule and loss scale."""
  optimizer = optimization.create_optimizer(
    config.learning_rate,
    config.num_train_steps,
    config.num_warmup_steps,
    config.optimizer,
    config.layerwise_lr_decay,
    budget.create_schedule(config),
  )
  if config.precision == "float16":
    optimizer.loss_scale = mixed_precision.LossScale()
  return optimizer


@contextlib.contextmanager
def _initial_values(seed: int) -> Iterator[None]:
  """Within this scope, `seed` determines the initial values of new variables.

  Keras' initializers draw their seeds from Python's global generator, whose
  state is restored at the end.
  """
  state = random.getstate()
  random.seed(seed)
  try:
    yield
  finally:
    random.setstate(state)


def _checkpoint_gradients(model: keras.Model) -> None:
  """Makes the backward pass recompute the encoder's layers."""
  if not hasattr(model, "bert"):
    raise ValueError(
      "recompute needs the encoder of BERT, which this model does not train; "
      "leave `recompute` out."
    )
  model.bert.encoder.recompute = True
