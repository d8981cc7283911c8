"""Totals and means of what is summed over parts of a batch or a data set."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import tensorflow as tf

from bert_tf.losses import Sums

T = TypeVar("T")


def add(sums: T | None, more: T) -> T:
  """Returns the sum of two structures of tensors; None counts as 0."""
  if sums is None:
    return more
  return tf.nest.map_structure(lambda a, b: a + b, sums, more)


def add_calls(
  total: T, function: Callable[[tf.Tensor], T], first: int, end: tf.Tensor | int
) -> T:
  """Adds what a function returns of first to end - 1; a loop in the graph."""
  _, total = tf.while_loop(
    lambda i, _: i < end,
    lambda i, total: (i + 1, add(total, function(i))),
    (tf.constant(first), total),
  )
  return total


def means(sums: Sums) -> dict[str, float]:
  """Returns sum / weight by name, 0 where nothing had any weight."""
  numbers = {name: np.asarray(pair, np.float64) for name, pair in sums.items()}
  return {
    name: float(total / weight) if weight else 0.0
    for name, (total, weight) in numbers.items()
  }
