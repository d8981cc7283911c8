"""Marks what XLA compiles where products stay with TensorFlow.

TensorFlow's matrix products are faster on a CPU than XLA's, and alone use its
bfloat16 units; what lies between them is faster compiled.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

# What is left out: products; tables and variables, of which XLA would make
# copies; and loops and calls, which hold products.
_LEFT_OUT = frozenset(
  "MatMul BatchMatMulV2 GatherV2 ResourceGather ScatterNd TensorScatterUpdate "
  "TensorScatterAdd UnsortedSegmentSum Identity ReadVariableOp VarHandleOp "
  "AssignVariableOp If StatelessIf While StatelessWhile PartitionedCall "
  "StatefulPartitionedCall".split()
)

_is_marking = contextvars.ContextVar("is_marking", default=False)


@contextlib.contextmanager
def scope() -> Iterator[None]:
  """Marks the operations that are traced in it: XLA compiles each piece."""
  import tensorflow as tf  # Other backends have no need of it.

  token = _is_marking.set(True)
  try:
    with tf.xla.experimental.jit_scope(
      compile_ops=lambda node: node.op not in _LEFT_OUT
    ):
      yield
  finally:
    _is_marking.reset(token)


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a function to trace, in the scope."""

  @functools.wraps(function)
  def traced(*args: Any) -> Any:
    with scope():
      return function(*args)

  return traced


def in_loop(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a function that a loop calls, in the scope that the loop is in."""
  # The body of a loop is a graph of its own.
  return marked(function) if _is_marking.get() else function
