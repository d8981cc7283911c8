"""Dense layers that compute on inputs flattened to rank 2."""

from typing import Any

import keras
from keras import ops

from bert_tf.model.tensor import Tensor


def flatten(x: Tensor) -> Tensor:
  """The rows of a tensor, [rows, D], for [..., D]."""
  return x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))


def restore(rows: Tensor, like: Tensor) -> Tensor:
  """Undoes `flatten`: returns [rows, D] as [..., D] for `like`, [..., size]."""
  if len(like.shape) == 2:
    return rows
  return ops.reshape(rows, (*ops.shape(like)[:-1], rows.shape[-1]))


class Dense(keras.layers.Dense):
  """Keras' dense layer, which flattens its input.

  A product of rank 3 by rank 2 is slower, and its gradient is computed for each
  example before it is summed. The activation also works on rows: TensorFlow
  fuses it with the product only if no other operation stands between them.
  """

  def call(self, inputs: Tensor, training: Any = None) -> Tensor:
    """Maps float [..., size] to float [..., units]."""
    outputs = super().call(flatten(inputs), training=training)
    return restore(outputs, inputs)

  def quantize(
    self, mode: str | None = None, type_check: bool = True, config: Any = None
  ) -> None:
    """Quantizes the kernel, such as to int8; Keras refuses subclasses."""
    super().quantize(mode, type_check=False, config=config)
