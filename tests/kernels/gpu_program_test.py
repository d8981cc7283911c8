"""Kernels in programs for GPUs have the values and gradients of their formula.

XLA compiles the same programs for a CPU here.
"""

import numpy as np
import tensorflow as tf

from bert_tf.kernels import backend, masked_lm
from bert_tf.layers import activations
from tests.support import plain_masked_lm


def test_gelu():
  x = tf.cast(tf.linspace(-6.0, 6.0, 1001), tf.bfloat16)

  @tf.function(jit_compile=True)
  def run():
    with backend.gpu_program(), tf.GradientTape() as tape:
      tape.watch(x)
      y = activations.gelu(x)
      return y, tape.gradient(y, x)

  exact = tf.cast(x, tf.float32)
  with tf.GradientTape() as tape:
    tape.watch(exact)
    expected = tf.nn.gelu(exact, approximate=True)
  slope = tape.gradient(expected, exact)
  for value, other in zip(run(), (expected, slope)):
    np.testing.assert_allclose(
      tf.cast(value, tf.float32), other, rtol=2**-8, atol=1e-4
    )


def test_all_rows_of_the_masked_lm_are_one_block():
  args = plain_masked_lm.arguments(700, plain_masked_lm.all_weights)

  @tf.function(jit_compile=True)
  def run(hidden, table, bias, ids, weights):
    with backend.gpu_program(), tf.GradientTape() as tape:
      tape.watch([hidden, table, bias])
      sums = masked_lm.sums(hidden, table, bias, ids, weights, True)
      loss = sums[0]
    return sums, tape.gradient(loss, [hidden, table, bias])

  sums, gradients = run(*args)
  assert "while" not in run.experimental_get_compiler_ir(*args)("hlo")
  expected, expected_gradients = plain_masked_lm.plain_sums(*args)
  np.testing.assert_allclose(sums, expected, rtol=1e-5)
  for gradient, other in zip(gradients, expected_gradients):
    np.testing.assert_allclose(gradient, other, rtol=1e-5, atol=1e-4)
