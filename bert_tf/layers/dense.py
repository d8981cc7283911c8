"""A dense layer that multiplies matrices of rank 2 only."""

from typing import Any

import keras
from keras import ops

from bert_tf.layers import serialization
from bert_tf.tensor import Tensor


@serialization.register
class Dense(keras.layers.Dense):
  """Keras' dense layer, which flattens its input to [rows, size] first.

  A product of rank 3 by rank 2 is slower, and its gradient is computed for each
  example before it is summed. The activation also works on [rows, units]: only
  next to a product of matrices does TensorFlow fuse both.
  """

  def call(self, inputs: Tensor, training: Any = None) -> Tensor:
    """Returns float [..., units] for float [..., size]."""
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
    outputs = super().call(rows, training=training)
    return ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.units))
