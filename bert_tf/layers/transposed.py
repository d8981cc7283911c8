"""Products of transposed matrices, of which TensorFlow makes no copy."""

import keras
from keras import ops

from bert_tf.layers.tensor import Tensor


def matmul(
  a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
  """Returns the products of matrices, float [..., rows, columns]."""
  if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
  a = ops.swapaxes(a, -1, -2) if transpose_a else a
  b = ops.swapaxes(b, -1, -2) if transpose_b else b
  return ops.matmul(a, b)
