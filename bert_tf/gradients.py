"""Gradients of a batch: added over its parts, measured and clipped."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_tf.tensor import Tensor


class Gradients(NamedTuple):
  """Gradients of a batch or micro-batch; fields add up over micro-batches."""

  # One gradient for each trained variable, of the same shape.
  dense: list[Tensor]
  # For each gradient that was sparse, by its index in `dense`: the sum of the
  # squares of its rows, float32 []. Rows of the same index are squared before
  # they are added, as in the original. In fine-tuning the gradient of the word
  # embeddings is sparse. In pre-training it is dense, since the output layer
  # shares them.
  row_squares: dict[int, Tensor]


def to_dense(gradients: Sequence[Any]) -> Gradients:
  """Makes sparse gradients dense and records the square sums of their rows.

  Args:
    gradients: tensors or tf.IndexedSlices, one for each variable.
  """
  dense, row_squares = [], {}
  for i, gradient in enumerate(gradients):
    if hasattr(gradient, "dense_shape"):
      row_squares[i] = square_sum(gradient.values)
      # Adam's moments decay in every row, so sparse updates gain nothing.
      rows = ops.expand_dims(gradient.indices, -1)
      gradient = ops.scatter(rows, gradient.values, gradient.dense_shape)
    dense.append(gradient)
  return Gradients(dense, row_squares)


def global_norm(gradients: Gradients) -> Tensor:
  """Returns the float32 L2 norm of all gradients together."""
  squares = [
    gradients.row_squares[i]
    if i in gradients.row_squares
    else square_sum(gradient)
    for i, gradient in enumerate(gradients.dense)
  ]
  return ops.sqrt(sum(squares))


def clip_factor(norm: Tensor, clip_norm: float) -> Tensor:
  """Returns the factor that limits the global norm of gradients.

  One factor for all variables keeps the direction of the update, unlike
  clipping each gradient (Pascanu et al. 2013).

  Args:
    norm: float32 []. Global norm of the gradients.
    clip_norm: the largest norm that is allowed. The 2018 release uses 1.0.

  Returns:
    float32 []: clip_norm / norm, at most 1; NaN if the norm is not finite.
  """
  factor = clip_norm * ops.minimum(1.0 / norm, 1.0 / clip_norm)
  return factor + (norm - norm)


def square_sum(values: Tensor) -> Tensor:
  """Returns the sum of squares, float32 []."""
  values = ops.cast(values, "float32")
  if keras.backend.backend() != "tensorflow":
    return ops.sum(ops.square(values))
  import tensorflow as tf

  # As in the original's tf.global_norm; l2_loss reads the values once.
  return 2.0 * tf.nn.l2_loss(values)
