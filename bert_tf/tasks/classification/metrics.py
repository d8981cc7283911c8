"""Metrics of a classifier, and the forms of its labels."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from bert_tf.checkpoint.run_info import LabelSpec
from bert_tf.tasks import base
from bert_tf.tasks.rows import Answer


def _f1(labels: np.ndarray, predicted: np.ndarray, average: str) -> float:
  # scikit-learn takes a single label of a multi-label task for two classes.
  average = "binary" if labels.shape[1:] == (1,) else average
  return f1_score(labels, predicted, average=average, zero_division=0)


# Metrics by name. Each takes true and predicted labels in the form that
# `decide` returns.
METRICS = {
  "f1": functools.partial(_f1, average="binary"),
  "macro_f1": functools.partial(_f1, average="macro"),
  "micro_f1": functools.partial(_f1, average="micro"),
  "matthews_correlation": matthews_corrcoef,
  "pearson": lambda a, b: stats.pearsonr(a, b).statistic,
  "spearman": lambda a, b: stats.spearmanr(a, b).statistic,
}


def decide(probabilities: np.ndarray, problem_type: str) -> np.ndarray:
  """Decides by probabilities, float32 [B, C].

  Returns int [B], the most probable class; float32 [B], the number of a
  regression; or int [B, C], 1 for each label with a probability above 0.5.
  """
  if problem_type == "regression":
    return probabilities[:, 0]
  if problem_type == "multilabel":
    return (probabilities > 0.5).astype(int)
  return probabilities.argmax(axis=-1)


def to_answer(spec: LabelSpec, probabilities: np.ndarray) -> Answer:
  """Returns `label` and `probabilities` of a row's probabilities, float32 [C].

  The label is a list for multilabel, and for regression a number; then
  `probabilities` are empty.
  """
  [value] = decide(probabilities[None], spec.problem_type)
  label: Any
  if spec.problem_type == "regression":
    [label] = base.digits(probabilities)
  elif spec.problem_type == "multilabel":
    label = [name for name, applies in zip(spec.labels, value) if applies]
  else:
    label = spec.labels[value]
  by_label = dict(zip(spec.labels, base.digits(probabilities)))
  return {"label": label, "probabilities": by_label}


def to_probabilities(answers: Iterable[Answer]) -> np.ndarray:
  """Returns the probabilities of answers of `to_answer`, float32 [B, C]."""
  return np.array(
    [[*a["probabilities"].values()] or [a["label"]] for a in answers],
    np.float32,
  )


def label_ids(labels: Sequence[Any], spec: LabelSpec) -> np.ndarray:
  """Returns the ids of labels; zeros for None, which is not known.

  Returns:
    int64 [B, 1], the classes; float32 [B, 1], the numbers of a regression; or
    int64 [B, C] in multilabel, 1 for each applicable label.
  """
  if spec.problem_type == "regression":
    return np.array([[label or 0.0] for label in labels], np.float32)
  if spec.problem_type == "multilabel":
    rows = [[name in (label or ()) for name in spec.labels] for label in labels]
    return np.array(rows, np.int64)
  ids = {name: i for i, name in enumerate(spec.labels)}
  return np.array([[0 if x is None else ids[x]] for x in labels], np.int64)
