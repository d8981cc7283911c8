"""Totals and means of what is summed over parts of a batch or a data set."""

import numpy as np
import tensorflow as tf

from bert_tf.losses import Sums


def add(sums: Sums | None, more: Sums) -> Sums:
  """Returns the totals of (sum, weight) by name; None counts as nothing."""
  if sums is None:
    return more
  return tf.nest.map_structure(lambda a, b: a + b, sums, more)


def means(sums: Sums) -> dict[str, float]:
  """Returns sum / weight by name, 0 where nothing had any weight."""
  values = {}
  for name, (total, weight) in sums.items():
    total, weight = np.float64(total), np.float64(weight)
    values[name] = float(total / weight) if weight else 0.0
  return values
