"""The outputs of one batch and their sums, on as many devices as there are."""

from collections.abc import Callable

import keras
import tensorflow as tf

from bert_tf import distribution
from bert_tf.losses import Sums
from bert_tf.modeling import Tensor

Features = dict[str, tf.Tensor]


class EvaluationStep:
  """Computes outputs, and sums of what is reported, without training.

  Where programs are of one shape, batches are filled up to the size of the
  first: with zeros, which have no weight in losses and metrics.

  Args:
    model: built, in the scope of the strategy.
    loss_fn: as of Estimator.
    eval_fn: as of Estimator.
  """

  def __init__(
    self,
    model: keras.Model,
    loss_fn: Callable[[Tensor, Features], Sums],
    eval_fn: Callable[[Tensor, Features], Sums],
  ) -> None:
    self._model = model
    self._loss_fn = loss_fn
    self._eval_fn = eval_fn
    self._strategy = tf.distribute.get_strategy()
    self._num_rows = None
    # Not one trace for each width that batches are cut to.
    self._evaluate = tf.function(self._evaluate_batch, reduce_retracing=True)
    self._predict = tf.function(self._predict_batch, reduce_retracing=True)

  def evaluate(self, features: Features) -> tuple[Sums, Tensor]:
    """Returns the sums of what is reported, and the outputs of each row."""
    sums, outputs = self._evaluate(self._filled_up(features))
    return sums, _first_rows(outputs, features)

  def predict(self, features: Features) -> Tensor:
    """Returns the outputs of each row."""
    outputs = self._predict(self._filled_up(features))
    return _first_rows(outputs, features)

  def _filled_up(self, features: Features) -> Features:
    if not distribution.needs_full_batches():
      return features
    self._num_rows = max(self._num_rows or 0, _num_rows(features))
    missing = self._num_rows - _num_rows(features)
    return {
      name: tf.pad(value, [(0, missing)] + [(0, 0)] * (value.shape.rank - 1))
      for name, value in features.items()
    }

  def _evaluate_batch(self, features: Features) -> tuple[Sums, Tensor]:
    losses, sums, outputs = self._strategy.run(self._evaluate_part, (features,))
    losses, sums = tf.nest.map_structure(self._sum, (losses, sums))
    loss = tf.add_n([loss / weight for loss, weight in losses.values()])
    sums = {"loss": (loss, tf.ones([])), **sums}
    return sums, distribution.gathered(outputs)

  def _evaluate_part(self, features: Features) -> tuple[Sums, Sums, Tensor]:
    features = distribution.replica_part(features)
    outputs = self._model(features, training=False)
    losses = self._loss_fn(outputs, features)
    return losses, self._eval_fn(outputs, features), outputs

  def _sum(self, value: tf.Tensor) -> tf.Tensor:
    return self._strategy.reduce(tf.distribute.ReduceOp.SUM, value, axis=None)

  def _predict_batch(self, features: Features) -> Tensor:
    outputs = self._strategy.run(self._predict_part, (features,))
    return distribution.gathered(outputs)

  def _predict_part(self, features: Features) -> Tensor:
    return self._model(distribution.replica_part(features), training=False)


def _first_rows(outputs: Tensor, features: Features) -> Tensor:
  """Returns the outputs of the rows that a batch had before it was filled."""
  if not distribution.needs_full_batches():
    return outputs
  num_rows = _num_rows(features)
  return tf.nest.map_structure(lambda value: value[:num_rows], outputs)


def _num_rows(features: Features) -> int:
  return int(next(iter(features.values())).shape[0])
