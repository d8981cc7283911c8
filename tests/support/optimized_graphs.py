"""Graphs after TensorFlow's optimizations."""

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import test_util

needs_onednn = pytest.mark.skipif(
  not test_util.IsMklEnabled() or bool(tf.config.list_physical_devices("GPU")),
  reason="oneDNN is off, or TensorFlow computes on a GPU",
)
_OUTPUT = "output_of_the_graph_that_a_test_looks_at"


def nodes(function, *args):
  """Returns the nodes of a function's optimized graph.

  The function must have one output. The name of this output identifies the
  graph, since other threads may run functions at the same time.
  """

  @tf.function(autograph=False)
  def named(*args):
    return tf.identity(function(*args), _OUTPUT)

  context.context().enable_run_metadata()
  try:
    named(*args)
    graphs = context.context().export_run_metadata().function_graphs
  finally:
    context.context().disable_run_metadata()
  (graph,) = (
    g
    for g in graphs
    if any(n.name == _OUTPUT for n in g.pre_optimization_graph.node)
  )
  return graph.post_optimization_graph.node
