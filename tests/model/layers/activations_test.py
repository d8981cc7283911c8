"""Gelu's tanh approximation, and its custom gradient."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model.layers import activations

X = np.linspace(-6.0, 6.0, 101)


def by_hand(x):
  return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def value_and_gradient(function, x):
  """Returns the function's result and the gradient of the result's sum."""
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = function(x)
  return y, tape.gradient(y, x)


def test_gelu_values_and_derivatives_match_the_formula():
  x, step = tf.constant(X), 1e-4
  with tf.GradientTape() as tape:
    tape.watch(x)
    y, first = value_and_gradient(activations.gelu, x)
  second = tape.gradient(first, x)
  above, below = by_hand(X + step), by_hand(X - step)
  np.testing.assert_allclose(y, by_hand(X), atol=1e-14)
  np.testing.assert_allclose(first, (above - below) / (2 * step), atol=1e-7)
  np.testing.assert_allclose(
    second, (above - 2 * by_hand(X) + below) / step**2, atol=1e-6
  )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gelu_of_large_inputs_does_not_overflow(dtype):
  x = tf.constant([-100.0, 0.0, 100.0], dtype)
  y, gradient = value_and_gradient(activations.gelu, x)
  assert y.dtype == gradient.dtype == dtype
  np.testing.assert_array_equal(tf.cast(y, "float32"), [0, 0, 100])
  np.testing.assert_array_equal(tf.cast(gradient, "float32"), [0, 0.5, 1])


@pytest.mark.parametrize("dtype, digits", [("float16", 11), ("bfloat16", 8)])
def test_gelu_of_16_bit_inputs_rounds_only_the_result(dtype, digits):
  x = tf.cast(X, dtype)
  exact = value_and_gradient(activations.gelu, tf.cast(x, "float64"))
  for result, expected in zip(
    value_and_gradient(activations.gelu, x), exact, strict=True
  ):
    result = tf.cast(result, "float64")
    # Near 0, the result has the rounding error of 1 + tanh in float32.
    np.testing.assert_allclose(result, expected, rtol=2.0**-digits, atol=3e-6)
