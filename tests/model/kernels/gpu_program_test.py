"""Kernels in programs for GPUs have the values and gradients of their formula.

XLA compiles the same programs for a CPU here.
"""

import numpy as np
import tensorflow as tf

from bert_tf import optimization
from bert_tf.model.kernels import backend, masked_lm
from bert_tf.model.layers import activations, layer_norm
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


def test_layer_norm():
  layer = layer_norm.LayerNorm(epsilon=1e-12, dtype="mixed_bfloat16")
  layer.build((None, 24))
  rng = np.random.default_rng(1)
  for variable in (layer.gamma, layer.beta):
    variable.assign(rng.normal(size=24))
  x = rng.normal(5.0, 2.0, (7, 3, 24))
  x[0, 0] = 0.3  # A variance of 0.
  x, by = (tf.cast(v, tf.bfloat16) for v in (x, rng.normal(size=x.shape)))

  def run(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = layer(x)
    sources = [x, layer.gamma.value, layer.beta.value]
    return y, *tape.gradient(y, sources, tf.cast(by, y.dtype))

  results = tf.function(backend.gpu_program()(run), jit_compile=True)(x)
  for value, other in zip(results, run(x)):
    value, other = (tf.cast(v, tf.float32)[1:] for v in (value, other))
    np.testing.assert_allclose(value, other, rtol=2**-7, atol=1e-2)
  assert np.isfinite(results[0]).all()


def test_global_norm():
  rng = np.random.default_rng(2)
  shapes = ((30, 8), (8,), (3, 5), (1,))
  dense = [tf.constant(rng.normal(size=s), tf.float32) for s in shapes]

  @tf.function(jit_compile=True)
  @backend.gpu_program()
  def run():
    # The third gradient was sparse.
    return optimization.global_norm(
      optimization.Gradients(dense, {2: tf.constant(7.0)})
    )

  squares = [np.sum(np.square(x)) for x in dense]
  squares[2] = 7.0
  np.testing.assert_allclose(run(), np.sqrt(sum(squares)), rtol=1e-6)


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
