"""What TensorFlow makes of a graph before it runs."""

import tensorflow as tf
from tensorflow.python.eager import context

_OUTPUT = "output_of_the_graph_that_a_test_looks_at"


def nodes(function, *args):
  """Returns the nodes that the graph of a function of one output runs.

  Other threads may run functions meanwhile: the output's name tells the graph.
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
