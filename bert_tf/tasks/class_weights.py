"""Weights of labels in the loss of a training."""

import collections
import contextlib
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert_tf.checkpoint import run_info
from bert_tf.files import messages
from bert_tf.tasks import base
from bert_tf.tasks.rows import Row, labels_in

# Problem types whose labels exclude each other.
_EXCLUSIVE = (run_info.CLASSIFICATION, run_info.WORDS)


def compute(
  given: Sequence[str], task: base.Task, rows: Sequence[Row]
) -> tuple[float, ...]:
  """Returns the weight of each label of a task.

  "balanced" stands for n / (k * count), with n training labels, k of them
  different, as in scikit-learn. A label without an example gets 1.

  Args:
    given: the setting class_weights: numbers, or "balanced".
    task: the task, with its labels.
    rows: the training rows.

  Raises:
    ValueError: if the setting does not give a positive number per label, or
      the task has no labels that exclude each other.
  """
  spec = task.labels
  labels = spec.labels if spec and spec.problem_type in _EXCLUSIVE else ()
  weights: list[float] = []
  if "balanced" in given:
    names = labels_in([row.get("label") for row in rows])
    counts = collections.Counter(names)
    known = [counts[label] for label in labels]
    num_present = sum(map(bool, known))
    weights = [sum(known) / (num_present * n) if n else 1.0 for n in known]
  else:
    with contextlib.suppress(ValueError):
      weights = [float(number) for number in given]
  is_valid = all(0 < weight < np.inf for weight in weights)
  if not labels or len(weights) != len(labels) or not is_valid:
    raise ValueError(
      f"class_weights {','.join(map(str, given))} does not fit the classes "
      f"{messages.join_names(labels) or '(there are none)'}. Give `balanced` "
      "or a positive number for each."
    )
  logging.info("The loss weighs labels by %s.", dict(zip(labels, weights)))
  return tuple(weights)
