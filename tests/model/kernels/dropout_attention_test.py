"""Attention with dropout has the values and gradients of its formula."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model.kernels import dropout_attention
from bert_tf.model.layers import dropout
from tests.support import optimized_graphs

B, N, F, T, H = 3, 2, 5, 7, 4
RATE = 0.3


def arguments(dtype="float32", by_query=False):
  rng = np.random.default_rng(1)
  shapes = [(B, N, F, H), (B, N, T, H), (B, N, T, H)]
  query, key, value = (
    tf.constant(rng.normal(size=shape), dtype) for shape in shapes
  )
  is_padding = rng.random((B, F if by_query else 1, T)) < 0.3
  return query, key, value, tf.constant(is_padding * -10000.0, "float32")


def dropped_by(mask):
  """dropout_attention.dropout_attention with a mask."""
  return lambda *inputs: dropout_attention.dropout_attention(*inputs, mask)


def new_mask():
  return dropout.Seeds(5).draw_mask((B, N, F, T), RATE)


def formula(query, key, value, key_scores, is_kept):
  scores = tf.einsum("bnfh,bnth->bnft", query, key) / math.sqrt(H)
  probs = tf.nn.softmax(scores + key_scores[:, None])
  probs = tf.where(is_kept, probs / (1 - RATE), 0.0)
  return tf.einsum("bnft,bnth->bnfh", probs, value)


def values_and_gradients(function, inputs):
  """The function's values and gradients of a weighted sum of their squares."""
  with tf.GradientTape() as tape:
    tape.watch(inputs[:3])
    output = function(*inputs)
    by = np.random.default_rng(2).normal(size=output.shape)
    total = tf.reduce_sum(tf.square(tf.cast(output, "float32")) * by)
  return [output, *tape.gradient(total, inputs[:3])]


@pytest.mark.parametrize("by_query", [False, True])
@pytest.mark.parametrize("form", ["eager", "graph", "xla"])
def test_attention_values_and_gradients_match_the_formula(by_query, form):
  inputs = arguments(by_query=by_query)
  mask = new_mask()
  is_kept = mask()
  assert 0.5 < np.mean(is_kept) < 0.9
  expected = values_and_gradients(lambda *args: formula(*args, is_kept), inputs)

  def compute(*inputs):
    return values_and_gradients(dropped_by(mask), inputs)

  if form != "eager":
    compute = tf.function(compute, autograph=False, jit_compile=form == "xla")
  for result, reference in zip(compute(*inputs), expected, strict=True):
    np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-5)


def test_bfloat16_is_near_float32():
  mask = new_mask()
  results, references = (
    values_and_gradients(dropped_by(mask), arguments(dtype))
    for dtype in ("bfloat16", "float32")
  )
  for result, reference in zip(results, references, strict=True):
    assert result.dtype == tf.bfloat16
    np.testing.assert_allclose(
      tf.cast(result, "float32"), reference, rtol=0.1, atol=0.1
    )


def test_a_gradient_recomputes_the_attention_weights():
  mask = new_mask()

  def step(*inputs):
    result = values_and_gradients(dropped_by(mask), inputs)
    return tf.add_n([tf.reduce_sum(x) for x in result])

  nodes = optimized_graphs.nodes(step, *arguments())
  # Masks of the weights in both halves, and of their gradient. If TensorFlow
  # merged the second with the first, it would hold all of the mask until then.
  assert sum(n.op == "SelectV2" for n in nodes) == 3
