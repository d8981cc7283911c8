"""How well texts are sorted by their relevance to a query."""

import collections
from collections.abc import Callable, Sequence

import numpy as np

_CUTOFF = 10  # Number of texts of a query that count.


def _reciprocal_rank(relevances: np.ndarray) -> float:
  """Returns 1 / rank of the first relevant text; 0 without one."""
  is_relevant = relevances[:_CUTOFF] > 0
  return float(is_relevant.any() and 1 / (1 + is_relevant.argmax()))


def _normalized_gain(relevances: np.ndarray) -> float:
  """Returns the gain by that of the best order (Jarvelin, Kekalainen 2002)."""
  discounts = 1 / np.log2(np.arange(2, _CUTOFF + 2))

  def gain(values: np.ndarray) -> float:
    values = values[:_CUTOFF]
    return float(values @ discounts[: len(values)])

  return gain(relevances) / gain(np.sort(relevances)[::-1])


# Each takes the relevances of the texts of a query, in the model's order.
METRICS: dict[str, Callable[[np.ndarray], float]] = {
  "ndcg_at_10": _normalized_gain,
  "mrr_at_10": _reciprocal_rank,
}


def score_rankings(
  queries: Sequence[str], relevances: np.ndarray, scores: np.ndarray
) -> dict[str, float]:
  """Returns the means of METRICS over queries that have a relevant text.

  The arguments have an item for each pair of a query and a text. Of texts with
  equal scores, the least relevant counts as the first.
  """
  indices = collections.defaultdict(list)
  for index, query in enumerate(queries):
    indices[query].append(index)
  sorted_relevances = [
    relevances[own][np.lexsort((relevances[own], -scores[own]))]
    for own in indices.values()
    if relevances[own].any()
  ]
  return {
    name: float(np.mean([*map(metric, sorted_relevances)] or [0.0]))
    for name, metric in METRICS.items()
  }
