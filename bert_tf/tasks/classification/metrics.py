"""Metrics of classification, regression and ranking.

scikit-learn and SciPy are imported when a metric is computed, because that
takes a second, which a prediction does not need.
"""

import collections
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def _f1(labels: np.ndarray, predicted: np.ndarray, average: str) -> float:
  from sklearn import metrics

  # scikit-learn takes a single label of a multi-label task for two classes.
  average = "binary" if labels.shape[1:] == (1,) else average
  return metrics.f1_score(labels, predicted, average=average, zero_division=0)


def _matthews(labels: np.ndarray, predicted: np.ndarray) -> float:
  from sklearn import metrics

  return metrics.matthews_corrcoef(labels, predicted)


def _pearson(labels: Sequence[float], predicted: Sequence[float]) -> float:
  from scipy import stats

  return stats.pearsonr(labels, predicted).statistic


def _spearman(labels: Sequence[float], predicted: Sequence[float]) -> float:
  from scipy import stats

  return stats.spearmanr(labels, predicted).statistic


# Metrics by name. Each takes true and predicted labels as `task.label_ids`.
METRICS: Mapping[str, Callable[[Any, Any], float]] = {
  "f1": functools.partial(_f1, average="binary"),
  "macro_f1": functools.partial(_f1, average="macro"),
  "micro_f1": functools.partial(_f1, average="micro"),
  "matthews_correlation": _matthews,
  "pearson": _pearson,
  "spearman": _spearman,
}

RANKING_METRICS = ("ndcg_at_10", "mrr_at_10")


def score_rankings(
  queries: Sequence[str], relevances: np.ndarray, scores: np.ndarray
) -> dict[str, float]:
  """Returns the means of RANKING_METRICS over queries with a relevant text.

  The arguments have an item for each pair of a query and a text. In the
  reciprocal rank, texts of equal scores count against the model.
  """
  from sklearn import metrics

  indices = collections.defaultdict(list)
  for index, query in enumerate(queries):
    indices[query].append(index)
  results = []
  for rows in indices.values():
    relevant, scored = relevances[rows], scores[rows]
    if relevant.any():
      # scikit-learn refuses a single text, which is in the right order.
      is_single = len(rows) == 1
      gain = is_single or metrics.ndcg_score([relevant], [scored], k=10)
      highest = scored[relevant > 0].max()
      rank = 1 + np.sum(scored[relevant == 0] >= highest)
      results.append((gain, 1 / rank if rank <= 10 else 0.0))
  means = np.mean(results or [(0.0, 0.0)], axis=0)
  return dict(zip(RANKING_METRICS, map(float, means)))
