"""Clustered compilation: XLA compiles the ops between matrix products.

On a CPU, XLA's matrix products are slower than TensorFlow's, in bfloat16
several times. The ops between the products are faster compiled: a plain graph
passes over memory once for each op, a compiled cluster once. `marked` marks
ops, and XLA compiles marked ops in clusters as large as possible. TensorFlow's
graph rewrites would replace marked ops by unmarked ops, and so split the
clusters, so they are switched off here. Checked with TensorFlow 2.20.
"""

import contextvars
import functools
from collections.abc import Callable
from typing import Any

# Ops that stay with TensorFlow: products; those on tables and variables, which
# XLA would copy; and loops and calls, which contain products.
_UNMARKED = frozenset(
  "MatMul BatchMatMulV2 GatherV2 ResourceGather ScatterNd TensorScatterUpdate "
  "TensorScatterAdd UnsortedSegmentSum Identity ReadVariableOp VarHandleOp "
  "AssignVariableOp If StatelessIf While StatelessWhile PartitionedCall "
  "StatefulPartitionedCall".split()
)

# Graph rewrites that replace marked ops by unmarked ones and so split clusters.
_REWRITES = ("arithmetic_optimization", "constant_folding", "remapping")

_is_marking = contextvars.ContextVar("is_marking", default=False)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
  """A function whose clusters XLA compiles.

  Call it only while another tf.function is traced.
  """
  import tensorflow as tf

  # Not inlined: it would be rewritten with the graph that calls it.
  called = tf.function(
    marked(function),
    autograph=False,
    experimental_attributes={"_noinline": True},
  )

  def call(*args: Any) -> Any:
    options = tf.config.optimizer.get_experimental_options()
    set_options = tf.config.optimizer.set_experimental_options
    set_options(dict.fromkeys(_REWRITES, False))
    try:
      return called(*args)
    finally:  # All are on by default.
      set_options({name: options.get(name, True) for name in _REWRITES})

  return call


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
  """A function whose ops are marked when it is traced."""
  import tensorflow as tf

  @functools.wraps(function)
  def traced(*args: Any) -> Any:
    token = _is_marking.set(True)
    try:
      with tf.xla.experimental.jit_scope(lambda n: n.op not in _UNMARKED):
        return function(*args)
    finally:
      _is_marking.reset(token)

  return traced


def in_loop(function: Callable[..., Any]) -> Callable[..., Any]:
  """The body of a loop, marked if the loop is.

  A loop's body is a graph of its own, which does not inherit the scope.
  """
  return marked(function) if _is_marking.get() else function
