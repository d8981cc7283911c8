"""A table whose rows are looked up and that a product takes, too.

TensorFlow would make a table of the rows' gradients, zero elsewhere, and add it
to that of the product.
"""

from collections.abc import Callable

import keras
from keras import ops

from bert_tf.tensor import Tensor


def look_up(table: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
  """Returns rows of a table, and the table, whose gradients are one.

  Args:
    table: float [V, D].
    ids: int [B, F], which rows.

  Returns:
    Float [B, F, D], and [V, D] for the product.
  """
  if keras.backend.backend() != "tensorflow":
    return ops.take(table, ids, axis=0), table
  import tensorflow as tf

  @tf.custom_gradient
  def run(
    table: Tensor,
  ) -> tuple[tuple[Tensor, Tensor], Callable[[Tensor, Tensor], Tensor]]:
    def gradient(of_rows: Tensor, of_table: Tensor) -> Tensor:
      rows = ops.reshape(of_rows, (-1, table.shape[-1]))
      return add_rows(of_table, ops.reshape(ids, (-1,)), rows)

    return (ops.take(table, ids, axis=0), tf.identity(table)), gradient

  return run(tf.convert_to_tensor(table))


def add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
  """Returns a table, [V, ...], with rows added where the ids, int [n], say."""
  if keras.backend.backend() != "tensorflow":
    added = ops.scatter(ids[:, None], rows, ops.shape(table))
    return table + added
  import tensorflow as tf

  return tf.tensor_scatter_nd_add(table, ids[:, None], rows)
