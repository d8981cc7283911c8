"""Metrics and files of predictions of a classifier."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging
from scipy import stats
from sklearn import metrics as sklearn_metrics

from bert_tf import losses
from bert_tf.model_folder import run_info
from bert_tf.tasks import prediction
from bert_tf.tasks.classification import answers
from bert_tf.tasks.classification.examples import FileLayout, InputExample
from bert_tf.training import results as results_lib


def _f1(labels: np.ndarray, predicted: np.ndarray, average: str) -> float:
  # scikit-learn takes a single label of a multi-label task for two classes.
  average = "binary" if labels.shape[1:] == (1,) else average
  return sklearn_metrics.f1_score(
    labels, predicted, average=average, zero_division=0
  )


# Metrics by name. Each takes true and predicted labels in the form that
# `answers.decide` returns.
METRICS = {
  "f1": functools.partial(_f1, average="binary"),
  "macro_f1": functools.partial(_f1, average="macro"),
  "micro_f1": functools.partial(_f1, average="micro"),
  "matthews_correlation": sklearn_metrics.matthews_corrcoef,
  "pearson": lambda a, b: stats.pearsonr(a, b).statistic,
  "spearman": lambda a, b: stats.spearmanr(a, b).statistic,
}


def label_ids(
  data: Sequence[InputExample], spec: run_info.LabelSpec
) -> np.ndarray:
  """Returns label_ids of examples; zeros for an unknown label.

  Returns:
    int32 [B, 1], the classes; float32 [B, 1], the numbers of a regression; or
    int32 [B, C] in multilabel, 1 for each applicable label.
  """
  labels: list[Any] = [example.label for example in data]
  if spec.problem_type == "regression":
    return np.array([[label or 0.0] for label in labels], np.float32)
  if spec.problem_type == "multilabel":
    rows = [[name in (label or ()) for name in spec.labels] for label in labels]
    return np.array(rows, np.int32)
  ids = {name: i for i, name in enumerate(spec.labels)}
  return np.array([[0 if x is None else ids[x]] for x in labels], np.int32)


def scores(
  layout: FileLayout,
  label_ids: np.ndarray,
  logits: np.ndarray,
  num_windows: Sequence[int],
) -> dict[str, float]:
  """Returns the results that need all predictions, by name.

  These are the task's metrics in addition to accuracy. If examples have several
  windows, they also include `example_loss` and `accuracy`, the means over
  examples. logits are float32 [sum of num_windows, C], label_ids as `label_ids`
  returns them.
  """
  pooled = answers.mean_over_windows(logits, num_windows)
  results = {}
  if len(pooled) < len(logits):
    batch = {"label_ids": label_ids, "is_real_example": np.ones(len(pooled))}
    sums = losses.classifier_metrics(pooled, batch, layout.problem_type)
    results = {
      name: float(total / weight) for name, (total, weight) in sums.items()
    }
  probabilities = prediction.probabilities(pooled, layout.problem_type)
  predicted = answers.decide(probabilities, layout.problem_type)
  labels = label_ids.reshape(predicted.shape)
  for name in layout.metrics:
    results[name] = float(METRICS[name](labels, predicted))
  return results


def describe_predictions(
  layout: FileLayout,
  examples: Sequence[InputExample],
  probabilities: np.ndarray,
) -> list[dict[str, Any]]:
  """Returns the lines of predictions.jsonl; logs the scores by label."""
  objects, spec = [], layout.label_spec()
  for example, answer in zip(examples, answers.labelled(spec, probabilities)):
    value: dict[str, Any] = {"id": example.guid, "text": example.text_a}
    value |= {"text_b": example.text_b, "true_label": example.label, **answer}
    objects.append({n: v for n, v in value.items() if v not in (None, {})})
  if 2 <= len(spec.labels) <= 100 and all("true_label" in x for x in objects):
    predicted = answers.decide(probabilities, spec.problem_type)
    report = sklearn_metrics.classification_report(
      label_ids(examples, spec).reshape(predicted.shape),
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
  examples: Sequence[InputExample],
  probabilities: np.ndarray,
) -> None:
  """Writes test_results.tsv, predictions.jsonl and any submission to GLUE.

  The probabilities are float32 [B, C], from losses.probabilities.
  """
  objects = describe_predictions(layout, examples, probabilities)
  results_lib.write_probabilities(output_dir, probabilities, objects)
  if layout.submission:
    cells = [value["label"] for value in objects]
    if layout.number_range:  # GLUE requires numbers within it.
      cells = [f"{np.clip(x, *layout.number_range):.3f}" for x in cells]
    lines = [f"{index}\t{cell}" for index, cell in enumerate(cells)]
    path = os.path.join(output_dir, layout.submission)
    results_lib.write_lines(path, ["index\tprediction", *lines])
