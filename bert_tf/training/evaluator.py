"""Evaluates and predicts with a model, batch by batch, on all devices."""

import collections
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import distribution
from bert_tf.model.layers import layer_norm
from bert_tf.model.losses import Sums
from bert_tf.training import objective as objective_lib
from bert_tf.training import progress
from bert_tf.training.objective import Features

# The outputs of each batch, and its features.
Batches = Iterator[tuple[Any, Features]]


class Evaluator:
  """Computes losses, metrics and outputs without training.

  TPUs need batches of one shape. There, smaller batches are filled up with
  zeros, which have no weight in losses and metrics.
  """

  def __init__(
    self, model: keras.Model, objective: objective_lib.Objective
  ) -> None:
    self._model = model
    self._objective = objective
    self._strategy = tf.distribute.get_strategy()
    self._num_rows = 0  # Size of the largest batch so far.
    # With dynamic padding, TensorFlow would otherwise trace each width.
    self._evaluate = tf.function(
      self._evaluate_replicas, reduce_retracing=True, autograph=False
    )
    self._predict = tf.function(
      self._predict_replicas, reduce_retracing=True, autograph=False
    )

  def evaluate(
    self,
    batches: tf.data.Dataset,
    score: Callable[[Batches], Mapping[str, float]] | None = None,
  ) -> dict[str, float]:
    """Returns the means of loss and metrics; see `Estimator.evaluate`."""
    totals = None

    def outputs() -> Batches:
      nonlocal totals
      for features in progress.track(batches, "evaluating", "batch"):
        sums, outputs = self._evaluate(self._fill_up(features))
        # Adds up in float64, since a data set has far more terms than a batch.
        sums = tf.nest.map_structure(lambda t: np.float64(t.numpy()), sums)
        totals = objective_lib.add(totals, sums)
        yield _first_rows(outputs, features), features

    stream = outputs()
    scores = score(stream) if score else {}
    collections.deque(stream, maxlen=0)  # What `score` did not need.
    if totals is None:
      raise ValueError("there is no whole batch of examples to evaluate on.")
    return {**objective_lib.means(totals), **scores}

  def predict(self, batches: tf.data.Dataset) -> Batches:
    """Yields the outputs of each batch, as NumPy arrays, and its features."""
    for features in progress.track(batches, "predicting", "batch"):
      outputs = _first_rows(self._predict(self._fill_up(features)), features)
      yield tf.nest.map_structure(lambda t: t.numpy(), outputs), features

  def _fill_up(self, features: Features) -> Features:
    if not distribution.needs_full_batches():
      return features
    num_rows = _num_rows(features)
    self._num_rows = max(self._num_rows, num_rows)
    missing = self._num_rows - num_rows
    return {
      name: tf.pad(value, [(0, missing)] + [(0, 0)] * (value.shape.rank - 1))
      for name, value in features.items()
    }

  def _evaluate_replicas(self, features: Features) -> tuple[Sums, Any]:
    def evaluate(features: Features) -> objective_lib.BatchSums:
      features = distribution.select_replica_part(features)
      with layer_norm.fused():
        return self._objective.loss_sums(self._model, features, training=False)

    def add_replicas(value: tf.Tensor) -> tf.Tensor:
      return self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)

    sums = self._strategy.run(evaluate, (features,))
    losses, metrics = tf.nest.map_structure(
      add_replicas, (sums.losses, sums.metrics)
    )
    loss = tf.add_n([total / weight for total, weight in losses.values()])
    totals = {"loss": (loss, tf.ones([])), **metrics}
    return totals, distribution.gather_outputs(sums.outputs)

  def _predict_replicas(self, features: Features) -> Any:
    def predict(features: Features) -> Any:
      features = distribution.select_replica_part(features)
      with layer_norm.fused():
        return self._model(features, training=False)

    return distribution.gather_outputs(self._strategy.run(predict, (features,)))


def _num_rows(features: Features) -> int:
  return int(next(iter(features.values())).shape[0])


def _first_rows(outputs: Any, features: Features) -> Any:
  if not distribution.needs_full_batches():
    return outputs
  num_rows = _num_rows(features)
  return tf.nest.map_structure(lambda value: value[:num_rows], outputs)
