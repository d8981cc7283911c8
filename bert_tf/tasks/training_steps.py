"""Steps of a fine-tuning, counted in passes over its data."""

import dataclasses
from typing import Protocol

from absl import logging

from bert_tf import estimator


class Config(Protocol):
  """What every config of a task's run has; see classification and others."""

  train: estimator.TrainConfig
  num_train_epochs: float
  warmup_proportion: float


def train_config(
  config: Config, num_examples: int, noun: str, default_metric: str
) -> estimator.TrainConfig:
  """Returns how to train, with the steps that the examples make.

  Args:
    config: of the run.
    num_examples: examples of a pass.
    noun: what they are, in the plural.
    default_metric: the best_metric if the config has none.

  Raises:
    ValueError: if they are fewer than a batch, or not one step.
  """
  train, batch_size = config.train, config.train.train_batch_size
  if num_examples < batch_size:
    raise ValueError(
      f"{num_examples} {noun} are fewer than one batch of {batch_size}; lower "
      "--train_batch_size."
    )
  # As the original computed both: rounded down.
  num_train_steps = int(num_examples / batch_size * config.num_train_epochs)
  if num_train_steps < 1:
    raise ValueError(
      f"num_train_epochs {config.num_train_epochs} of {num_examples} {noun} is "
      f"less than one batch of {batch_size}; raise it."
    )
  num_warmup_steps = int(num_train_steps * config.warmup_proportion)
  logging.info(
    "%d %s, %d steps of %d, %d of them warm-up.",
    num_examples,
    noun,
    num_train_steps,
    batch_size,
    num_warmup_steps,
  )
  return dataclasses.replace(
    train,
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    best_metric=train.best_metric or default_metric,
  )
