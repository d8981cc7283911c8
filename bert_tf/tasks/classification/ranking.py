"""How well texts are sorted by their relevance to a query."""

import collections
from collections.abc import Sequence

import numpy as np
from sklearn import metrics

METRICS = ("ndcg_at_10", "mrr_at_10")


def score_rankings(
  queries: Sequence[str], relevances: np.ndarray, scores: np.ndarray
) -> dict[str, float]:
  """Returns the means of METRICS over queries that have a relevant text.

  The arguments have an item for each pair of a query and a text. In the
  reciprocal rank, texts of equal scores count against the model.
  """
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
  return dict(zip(METRICS, map(float, means)))
