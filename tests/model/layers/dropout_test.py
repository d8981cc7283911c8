"""The masks of dropout: their bits on every path, and their statistics.

The masks are the same in each run, so no test fails by chance.
"""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model.layers import dropout

ROWS, UNITS = 2048, 512  # A million numbers.
RATE = 0.1

# Standard deviations; chance exceeds them once in 1.7 million times.
LIMIT = 5.0


def kept_mask(first, num_draws=1, shape=(ROWS, UNITS), rate=RATE):
  """The masks of some draws, bool [num_draws, ...]."""
  seeds = dropout.Seeds()
  with seeds.counted_from(tf.constant(first, seeds.state.dtype)):
    masks = [
      dropout.dropout(tf.ones(shape), rate, seeds, training=True)
      for _ in range(num_draws)
    ]
  return np.array(masks) > 0


def deviations(is_kept, count, rate=RATE):
  """The error of means over `count` numbers, in standard deviations."""
  return (is_kept - (1 - rate)) / np.sqrt(rate * (1 - rate) / count)


def correlations(mask, other_mask):
  """The correlation of two masks, in standard deviations from 0."""
  mask, other_mask = (is_kept - (1 - RATE) for is_kept in (mask, other_mask))
  return np.mean(mask * other_mask) / (RATE * (1 - RATE)) * np.sqrt(mask.size)


def test_neighbouring_bits_are_independent():
  mask = kept_mask([12345, 7, 0])[0]
  flat = mask.ravel()
  lags = {
    *range(1, 65),
    *(2**i for i in range(19)),
    *(3 * 2**i for i in range(17)),
  }
  result = [correlations(flat[lag:], flat[:-lag]) for lag in lags]
  assert np.abs(result).max() < LIMIT
  squares = mask[1:, 1:] ^ mask[:-1, 1:] ^ mask[1:, :-1] ^ mask[:-1, :-1]
  odd = (1 - (1 - 2 * RATE) ** 4) / 2  # Parity of four bits.
  assert abs(deviations(squares.mean(), squares.size, 1 - odd)) < LIMIT


def numpy_mask(seed, size, rate):
  """The mask by plain integers, modulo 2**32."""
  end = 2**32
  factors = 0x7FEB352D, 0x846CA68B

  def hashed(x):
    x = (x ^ (x >> 16)) * factors[0] % end
    x = (x ^ (x >> 15)) * factors[1] % end
    return x ^ (x >> 16)

  keys = []
  for row in range(2):
    places = (row * len(seed) + i + 1 for i in range(len(seed)))
    words = [(w + p * 0x9E3779B9) % end for w, p in zip(seed, places)]
    keys.append(hashed(sum(map(hashed, words)) % end))
  result = []
  for i in range(size):
    x = (i + keys[0]) % end
    x = ((x ^ (x >> 16)) * factors[0] % end) ^ keys[1]
    x = (x ^ (x >> 15)) * factors[1] % end
    result.append(x >= rate * end)
  return np.array(result)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_every_path_draws_the_same_bits(jit_compile):
  expected = numpy_mask([2**31 + 1, 90_000_000, 3, 1], 3 * 5 * 7, 0.25)

  seeds = dropout.Seeds()

  @tf.function(
    jit_compile=jit_compile, input_signature=[tf.TensorSpec([None] * 3)]
  )
  def second_draw(x):
    first = tf.constant([2**31 + 1, 90_000_000, 3], seeds.state.dtype)
    with seeds.counted_from(first):
      dropout.dropout(x, 0.5, seeds, training=True)
      return dropout.dropout(x, 0.25, seeds, training=True)

  result = second_draw(tf.ones((3, 5, 7)))
  np.testing.assert_array_equal(result.numpy().ravel() > 0, expected)
  eager = kept_mask([2**31 + 1, 90_000_000, 3], 2, (3, 5, 7), rate=0.25)[1]
  np.testing.assert_array_equal(eager.ravel(), expected)


def test_remaining_values_are_scaled_in_the_input_dtype():
  seeds = dropout.Seeds()
  for dtype in (tf.float32, tf.bfloat16, tf.float16):
    result = dropout.dropout(tf.ones(1000, dtype), 0.5, seeds, training=True)
    assert result.dtype == dtype
    assert set(tf.cast(result, tf.float32).numpy()) == {0.0, 2.0}
