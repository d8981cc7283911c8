"""An embedding table that is also the output projection."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.kernels import tied_embedding


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_table_gradient_sums_both_uses(jit_compile):
  table = tf.Variable(tf.random.stateless_normal([7, 3], [1, 2]))
  ids = tf.constant([[0, 4, 4], [6, 4, 0]])  # Some more than once.
  weights = tf.random.stateless_normal([2, 3, 3], [3, 4])

  def compute_loss(rows, table):
    return tf.reduce_sum(rows * weights) + tf.reduce_sum(table**2)

  @tf.function(jit_compile=jit_compile)
  def gradients():
    with tf.GradientTape() as tape:
      loss = compute_loss(*tied_embedding.look_up(table, ids))
    result = tape.gradient(loss, table)
    with tf.GradientTape() as tape:
      loss = compute_loss(tf.gather(table, ids), tf.convert_to_tensor(table))
    return result, tf.convert_to_tensor(tape.gradient(loss, table))

  result, expected = gradients()
  assert isinstance(result, tf.Tensor)
  np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
