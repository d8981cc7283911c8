"""The masked-LM loss in NumPy, and arguments for it."""

import numpy as np
import tensorflow as tf

D, V = 16, 50  # Hidden size and vocabulary size.


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
  """Returns [loss, hits] by definition, and gradients, both in float64."""
  hidden, table, bias, weights = (
    np.float64(tf.cast(x, tf.float32)) for x in (hidden, table, bias, weights)
  )
  logits = hidden @ table.T + bias
  powers = np.exp(logits - logits.max(-1, keepdims=True))
  probs = powers / powers.sum(-1, keepdims=True)
  rows = np.arange(len(ids))
  loss = -np.log(probs[rows, ids]) @ weights
  hits = (logits.argmax(-1) == ids.numpy()) @ weights
  probs[rows, ids] -= 1.0
  d_logits = probs * weights[:, None]
  gradients = d_logits @ table, d_logits.T @ hidden, d_logits.sum(0)
  return [loss, hits], gradients


def all_weights(rng, num_rows):
  return np.ones(num_rows)
