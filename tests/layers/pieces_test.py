"""Which operations are marked for XLA, and where."""

import contextlib

import numpy as np
import tensorflow as tf

from bert_tf.layers import masked_lm, pieces
from tests.layers import masked_lm_test


def marked_ops(function):
  """The operations that XLA is to compile, of a function and what it calls."""
  graph = function.graph.as_graph_def()
  nodes = [
    *graph.node,
    *(n for f in graph.library.function for n in f.node_def),
  ]
  return {n.op for n in nodes if n.attr["_XlaCompile"].b} - {"Const"}


def looped(is_in_pieces, limit=3):
  """A function that loops over exp and a product, and takes the tanh."""

  def body(count, values):
    values = pieces.in_loop(lambda x: tf.exp(x) @ x)(values)
    return count + 1, tf.floor(values)

  @tf.function(autograph=False)
  def run(values):
    with pieces.scope() if is_in_pieces else contextlib.nullcontext():
      found = tf.while_loop(lambda i, _: i < limit, body, (0, values))
      return tf.tanh(found[1])

  return run.get_concrete_function(tf.TensorSpec([4, 4]))


def test_what_a_loop_calls_is_in_the_scope_of_the_loop():
  assert marked_ops(looped(True)) == {"Exp", "Tanh"}
  assert marked_ops(looped(False)) == set()
  values = tf.constant(np.random.default_rng(1).normal(size=(4, 4)), tf.float32)
  np.testing.assert_allclose(
    looped(True, 1)(values), looped(False, 1)(values), rtol=1e-6
  )


def test_blocks_of_the_masked_lm_are_compiled_between_their_products():
  given = masked_lm_test.arguments(700, masked_lm_test.all_weights)
  expected, expected_gradients = masked_lm_test.plain_sums(*given)

  @tf.function(autograph=False)
  def run(hidden, table, bias, ids, weights):
    with pieces.scope(), tf.GradientTape() as tape:
      tape.watch([hidden, table, bias])
      sums = masked_lm.sums(hidden, table, bias, ids, weights, True)
    return sums, tape.gradient(sums, [hidden, table, bias])

  found = marked_ops(run.get_concrete_function(*given))
  assert "Exp" in found
  assert "MatMul" not in found
  sums, gradients = run(*given)
  np.testing.assert_allclose(sums, expected, rtol=1e-5)
  for one, of_plain in zip(gradients, expected_gradients, strict=True):
    np.testing.assert_allclose(one, of_plain, rtol=1e-5, atol=1e-5)
