"""The objective of a task: the loss it trains and the metrics it reports.

Losses and metrics are pairs (sum, weight), not means. The replicas and
micro-batches of a batch have different weights, such as numbers of masked
words, so a mean of their means is not the mean of the batch. Sums and weights
are added instead, and divided once, at the end.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf.model.losses import Sums
from bert_tf.model.model_config import BertConfig
from bert_tf.model.tensor import Tensor

Features = dict[str, tf.Tensor]

T = TypeVar("T")


class BatchSums(NamedTuple):
  """Losses, metrics and outputs of a batch, or of a part of it."""

  losses: Sums
  metrics: Sums
  # A tensor or a structure of tensors; () if the objective has no outputs.
  outputs: Any = ()


class Objective:
  """What a run needs of a task; a tasks.base.Task is one.

  The loss of a batch is the total of sum / weight over the names of the losses.
  A metric of a data set is the total of its sums divided by that of its
  weights.

  Attributes:
    has_loss: whether evaluations compute the loss.
    first_results: names of the results at the top of result files.
  """

  has_loss: ClassVar[bool] = True
  first_results: ClassVar[tuple[str, ...]] = ()

  @property
  def metrics(self) -> tuple[str, ...]:
    """Names of the results. The first is the default best_metric."""
    return ("loss",)

  def build_model(self, config: BertConfig) -> keras.Model:
    """Returns the model, with random values."""
    raise NotImplementedError

  def weights(self, features: Features, training: bool) -> dict[str, Tensor]:
    """Returns the weights of the losses, by name.

    They depend only on the features, so a step knows them for the whole batch
    before it computes the first micro-batch.
    """
    raise NotImplementedError

  def loss_sums(
    self, model: keras.Model, features: Features, training: bool
  ) -> BatchSums:
    """Returns the losses, metrics and outputs of features [B, ...]."""
    raise NotImplementedError

  def unused_variables(self, model: keras.Model) -> list[keras.Variable]:
    """Returns the trainable variables that the loss does not depend on.

    As in the original, these have no moments and no weight decay.
    """
    return getattr(model, "unused_variables", [])

  def name_results(self, means: Mapping[str, float]) -> dict[str, float]:
    """Returns the results of an evaluation by their names in result files."""
    return dict(means)


def add_sums(sums: T | None, other_sums: T) -> T:
  """Returns the sum of two structures of tensors; None counts as 0."""
  if sums is None:
    return other_sums
  total: T = tf.nest.map_structure(lambda a, b: a + b, sums, other_sums)
  return total


def select_shown(values: Mapping[str, T]) -> dict[str, T]:
  """Returns the values without a total that only repeats a loss."""
  losses_of_heads = {"masked_lm_loss", "next_sentence_loss"} & values.keys()
  is_repeated = losses_of_heads == {"masked_lm_loss"}
  return {n: v for n, v in values.items() if n != "loss" or not is_repeated}


def compute_means(sums: Sums) -> dict[str, float]:
  """Returns sum / weight by name; 0 if the weight is 0."""
  numbers = {name: np.asarray(pair, np.float64) for name, pair in sums.items()}
  return {
    name: float(total / weight) if weight else 0.0
    for name, (total, weight) in numbers.items()
  }
