"""Metrics and files of predictions of a classifier."""

import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging
from scipy import stats
from sklearn import metrics as sklearn_metrics

from bert_tf.checkpoint import run_info
from bert_tf.model import losses
from bert_tf.tasks import base
from bert_tf.tasks.classification.layouts import FileLayout
from bert_tf.tasks.rows import Answer, Row
from bert_tf.training import results as results_lib


def _f1(labels: np.ndarray, predicted: np.ndarray, average: str) -> float:
  # scikit-learn takes a single label of a multi-label task for two classes.
  average = "binary" if labels.shape[1:] == (1,) else average
  return sklearn_metrics.f1_score(
    labels, predicted, average=average, zero_division=0
  )


# Metrics by name. Each takes true and predicted labels in the form that
# `decide` returns.
METRICS = {
  "f1": functools.partial(_f1, average="binary"),
  "macro_f1": functools.partial(_f1, average="macro"),
  "micro_f1": functools.partial(_f1, average="micro"),
  "matthews_correlation": sklearn_metrics.matthews_corrcoef,
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


def to_json(spec: run_info.LabelSpec, probabilities: np.ndarray) -> Answer:
  """Returns `label` and `probabilities` of a row's probabilities, float32 [C].

  The label is a list for multilabel, and for regression a number; then
  `probabilities` are empty.
  """
  [value] = decide(probabilities[None], spec.problem_type)
  label: Any
  if spec.problem_type == "regression":
    label = float(str(value))  # Prints the digits of a float32.
  elif spec.problem_type == "multilabel":
    label = [name for name, applies in zip(spec.labels, value) if applies]
  else:
    label = spec.labels[value]
  by_label = dict(zip(spec.labels, base.digits(probabilities)))
  return {"label": label, "probabilities": by_label}


def to_probabilities(answers: Iterable[Answer]) -> np.ndarray:
  """Returns the probabilities of answers of `to_json`, float32 [B, C]."""
  return np.array(
    [[*a["probabilities"].values()] or [a["label"]] for a in answers],
    np.float32,
  )


def label_ids(labels: Sequence[Any], spec: run_info.LabelSpec) -> np.ndarray:
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


def scores(
  names: Sequence[str],
  spec: run_info.LabelSpec,
  rows: Sequence[Row],
  answers: Sequence[Answer],
) -> dict[str, float]:
  """Returns the results with these names of METRICS."""
  labels = label_ids([row["label"] for row in rows], spec)
  predicted = decide(to_probabilities(answers), spec.problem_type)
  labels = labels.reshape(predicted.shape)
  return {name: float(METRICS[name](labels, predicted)) for name in names}


def means_over_rows(
  spec: run_info.LabelSpec,
  rows: Sequence[Row],
  answers: Sequence[Answer],
) -> dict[str, float]:
  """Returns `example_loss` and `accuracy` of rows that have several windows.

  The means over records would count a long text several times.
  """
  values = to_probabilities(answers)
  if spec.problem_type != run_info.REGRESSION:
    # Logits with these probabilities, which may have been rounded to 0 or 1.
    values = np.clip(values, np.finfo(np.float32).tiny, 1 - 2.0**-24)
    is_multilabel = spec.problem_type == run_info.MULTILABEL
    values = np.log(values) - is_multilabel * np.log1p(-values)
  target = label_ids([row["label"] for row in rows], spec), spec.problem_type
  means = {
    "example_loss": losses.per_example_loss(values, *target),
    "accuracy": losses.per_example_hits(values, *target),
  }
  return {
    name: float(np.sum(each) / len(rows))
    for name, each in means.items()
    if each is not None
  }


def describe_predictions(
  spec: run_info.LabelSpec,
  rows: Sequence[Row],
  answers: Sequence[Answer],
) -> list[dict[str, Any]]:
  """Returns the lines of predictions.jsonl; logs the scores by label."""
  objects = []
  for row, answer in zip(rows, answers):
    value = {name: row.get(name) for name in ("id", "text", "text_b")}
    value |= {"true_label": row.get("label"), **answer}
    objects.append({n: v for n, v in value.items() if v not in (None, {})})
  if 2 <= len(spec.labels) <= 100 and all("true_label" in x for x in objects):
    predicted = decide(to_probabilities(answers), spec.problem_type)
    labels = label_ids([row["label"] for row in rows], spec)
    report = sklearn_metrics.classification_report(
      labels.reshape(predicted.shape),
      predicted,
      labels=np.arange(len(spec.labels)),
      target_names=spec.labels,
      digits=3,
      zero_division=0,
    )
    report = report.replace("  support", " examples")
    logging.info("The scores of each label:\n%s", report.rstrip())
  return objects


def write_predictions(
  output_dir: str,
  layout: FileLayout,
  spec: run_info.LabelSpec,
  rows: Sequence[Row],
  answers: Sequence[Answer],
) -> None:
  """Writes test_results.tsv, predictions.jsonl and any submission to GLUE."""
  objects = describe_predictions(spec, rows, answers)
  results_lib.write_probabilities(output_dir, objects)
  if layout.submission:
    cells = [value["label"] for value in objects]
    if layout.number_range:  # GLUE requires numbers within it.
      cells = [f"{np.clip(x, *layout.number_range):.3f}" for x in cells]
    lines = [f"{index}\t{cell}" for index, cell in enumerate(cells)]
    path = os.path.join(output_dir, layout.submission)
    results_lib.write_lines(path, ["index\tprediction", *lines])
