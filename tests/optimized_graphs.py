"""What TensorFlow makes of a graph before it runs."""

from tensorflow.python.eager import context


def nodes(function, *args):
  """Calls a tf.function; returns the nodes that its graph was optimized to."""
  context.context().enable_run_metadata()
  try:
    function(*args)
    graphs = context.context().export_run_metadata().function_graphs
  finally:
    context.context().disable_run_metadata()
  return [n for g in graphs for n in g.post_optimization_graph.node]
