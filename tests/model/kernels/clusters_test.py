"""Operations that are marked for XLA, and their clusters."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from bert_tf.model.kernels import clusters, masked_lm
from tests.support import plain_masked_lm

REWRITES = ("arithmetic_optimization", "constant_folding", "remapping")


def marked_ops(function):
  """The operations marked for XLA in a function and in its callees."""
  graph = function.graph.as_graph_def()
  nodes = [
    *graph.node,
    *(n for f in graph.library.function for n in f.node_def),
  ]
  return {n.op for n in nodes if n.attr["_XlaCompile"].b} - {"Const"}


def test_blocks_of_the_masked_lm_are_compiled_between_their_products():
  inputs = plain_masked_lm.arguments(700, plain_masked_lm.all_weights)
  expected, expected_gradients = plain_masked_lm.plain_sums(*inputs)

  def sums_and_gradients(hidden, table, bias, ids, weights):
    with tf.GradientTape() as tape:
      tape.watch([hidden, table, bias])
      sums = masked_lm.sums(hidden, table, bias, ids, weights, True)
    return sums, tape.gradient(sums, [hidden, table, bias])

  run = tf.function(clusters.marked(sums_and_gradients), autograph=False)
  result = marked_ops(run.get_concrete_function(*inputs))
  assert "Exp" in result
  assert "MatMul" not in result
  sums, gradients = run(*inputs)
  np.testing.assert_allclose(sums, expected, rtol=1e-5)
  for gradient, expected in zip(gradients, expected_gradients, strict=True):
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_a_clustered_graph_is_not_rewritten():
  def sums(x):
    return (tf.matmul(x, x) + x) + (x + tf.exp(x))

  x = tf.ones([4, 4])
  outer = tf.function(clusters.compiled(sums), autograph=False)
  np.testing.assert_allclose(outer(x), sums(x), rtol=1e-6)
  graph = outer.get_concrete_function(x).graph.as_graph_def()
  [node] = [n for n in graph.node if n.op == "PartitionedCall"]
  called = {f.signature.name: f for f in graph.library.function}
  # So its own settings count.
  assert called[node.attr["f"].func.name].attr["_noinline"].b
  config = config_pb2.ConfigProto.FromString(node.attr["config_proto"].s)
  rewriters = config.graph_options.rewrite_options
  for name in REWRITES:
    assert getattr(rewriters, name) == rewriters.OFF, name


@pytest.mark.parametrize("settings", [{}, {"remapping": False}])
def test_rewrite_settings_are_restored_after_the_scope(settings):
  options = tf.config.optimizer.get_experimental_options()
  tf.config.optimizer.set_experimental_options(settings)
  try:
    with pytest.raises(ZeroDivisionError):
      tf.function(clusters.compiled(lambda x: x / 0), autograph=False)(1)
    after = tf.config.optimizer.get_experimental_options()
    assert after["remapping"] == settings.get("remapping", True)
    assert after["constant_folding"]
  finally:
    tf.config.optimizer.set_experimental_options({"remapping": True, **options})
