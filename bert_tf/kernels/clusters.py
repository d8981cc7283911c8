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

# What TensorFlow rewrites a graph by. It puts operations without a mark in
# place of marked ones, and so cuts pieces apart.
_REWRITES = ("arithmetic_optimization", "constant_folding", "remapping")

_is_marking = contextvars.ContextVar("is_marking", default=False)


def name_rewrites() -> None:
  """Says that graphs are rewritten, which they are in any case.

  `compiled` names the rewrites too. A function that was called before they were
  named would be optimized again at its next call.
  """
  _set_rewrites(_rewrites())


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a function of which XLA compiles the pieces.

  It is to be called where another one is traced.
  """
  import tensorflow as tf  # Other backends have no need of it.

  # As a part of the graph that calls it, it would be rewritten with that.
  called = tf.function(
    marked(function),
    autograph=False,
    experimental_attributes={"_noinline": True},
  )

  def call(*args: Any) -> Any:
    before = _rewrites()
    _set_rewrites(dict.fromkeys(_REWRITES, False))
    try:
      return called(*args)
    finally:
      _set_rewrites(before)

  return call


def _rewrites() -> dict[str, bool]:
  """Returns which rewrites are on; all are unless said otherwise."""
  import tensorflow as tf

  said = tf.config.optimizer.get_experimental_options()
  return {name: said.get(name, True) for name in _REWRITES}


def _set_rewrites(rewrites: dict[str, bool]) -> None:
  import tensorflow as tf

  tf.config.optimizer.set_experimental_options(rewrites)


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
