"""The masked-LM loss in NumPy, and arguments for it."""

import numpy as np
import tensorflow as tf

D, V = 16, 50


def arguments(num_rows, weights, dtype="float32"):
  rng = np.random.default_rng(num_rows)
  return (
    tf.cast(rng.normal(size=(num_rows, D)), dtype),
    tf.constant(rng.normal(size=(V, D)), tf.float32),
    tf.constant(rng.normal(size=V), tf.float32),
    tf.constant(rng.integers(V, size=num_rows), tf.int32),
    tf.constant(weights(rng, num_rows), tf.float32),
  )


def plain_sums(hidden, table, bias, ids, weights):
  """Loss and hits of the textbook, and float64 gradients by hand."""
  hidden, table, bias, weights = (
    np.float64(tf.cast(x, tf.float32)) for x in (hidden, table, bias, weights)
  )
  logits = hidden @ table.T + bias
  powers = np.exp(logits - logits.max(-1, keepdims=True))
  probs = powers / powers.sum(-1, keepdims=True)
  rows = np.arange(len(ids))
  result = -np.log(probs[rows, ids]) @ weights
  hits = (logits.argmax(-1) == ids.numpy()) @ weights
  probs[rows, ids] -= 1.0
  by_logits = probs * weights[:, None]
  gradients = by_logits @ table, by_logits.T @ hidden, by_logits.sum(0)
  return [result, hits], gradients


def all_weights(rng, num_rows):
  return np.ones(num_rows)
