"""Comparisons of rankings whose scores have rounding errors of float32.

Processors and libraries sum floats in different orders, so two candidates with
nearly equal scores may change places. The functions here allow only this. They
refuse other candidates, other scores and other places.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

# Tolerance of a float32 forward pass.
ATOL = 1e-5


def assert_ranking(
  actual: Sequence[tuple[str, float]],
  expected: Sequence[tuple[str, float]],
  atol: float = ATOL,
) -> None:
  """Asserts that two rankings agree, except for the order of near ties.

  Args:
    actual: (candidate, score) in the order to check.
    expected: (candidate, score) from a recording or another computation.
    atol: maximum difference of scores at a place, and of the expected scores of
      candidates that change places.
  """
  assert sorted(c for c, _ in actual) == sorted(c for c, _ in expected)
  scores = [score for _, score in expected]
  np.testing.assert_allclose([s for _, s in actual], scores, rtol=0, atol=atol)
  free = list(expected)
  for place, (candidate, _) in enumerate(actual):
    index = next(i for i, (c, _) in enumerate(free) if c == candidate)
    _, own_score = free.pop(index)
    assert abs(own_score - scores[place]) <= atol, (
      f"{candidate!r} is at place {place}, where the score is "
      f"{scores[place]}; its own is {own_score}."
    )


def best(scores: Mapping[Any, float], atol: float = ATOL) -> set[Any]:
  """Returns the candidates whose score is the best up to rounding."""
  highest = max(scores.values())
  return {c for c, score in scores.items() if score >= highest - atol}


def assert_best(
  actual: Sequence[Any],
  expected: Sequence[Sequence[float]],
  candidates: Sequence[Any],
  atol: float = ATOL,
) -> None:
  """Asserts that each choice is the best one, up to near ties.

  Args:
    actual: the choice in each row.
    expected: [rows, candidates]. The expected scores.
    candidates: names of the columns of `expected`.
    atol: maximum distance of a choice from the best score.
  """
  assert len(actual) == len(expected)
  for row, (choice, scores) in enumerate(zip(actual, expected)):
    allowed = best(dict(zip(candidates, scores, strict=True)), atol)
    assert choice in allowed, f"row {row}: {choice!r} is not in {allowed}"


def assert_accuracy(
  actual: float,
  expected: Sequence[Sequence[float]],
  right: Sequence[int],
  atol: float = ATOL,
) -> None:
  """Asserts that an accuracy follows from the scores, up to near ties.

  Args:
    actual: share of rows whose best score is that of the right class.
    expected: [rows, classes]. The expected scores.
    right: [rows]. The right class of each row.
    atol: maximum distance of a choice from the best score.
  """
  choices = [best(dict(enumerate(scores)), atol) for scores in expected]
  certain = np.mean([{i} == c for i, c in zip(right, choices, strict=True)])
  possible = np.mean([i in c for i, c in zip(right, choices)])
  assert certain <= actual <= possible


def assert_nbest(
  actual: Sequence[Mapping[str, Any]],
  expected: Sequence[Mapping[str, Any]],
  atol: float = ATOL,
) -> None:
  """Asserts that n-best lists of SQuAD agree, except for near ties.

  Args:
    actual: text, probability, start_logit and end_logit of each candidate.
    expected: the same fields, from a recording or another computation.
    atol: maximum difference of each number. A near tie may differ by twice as
      much in the sum of its logits.
  """
  assert_ranking(_ranking(actual), _ranking(expected), 2 * atol)
  by_text = {entry["text"]: entry for entry in actual}
  for entry in expected:
    own = by_text[entry["text"]]
    for name in ("probability", "start_logit", "end_logit"):
      np.testing.assert_allclose(own[name], entry[name], rtol=0, atol=atol)


def _ranking(nbest: Sequence[Mapping[str, Any]]) -> list[tuple[str, float]]:
  return [(c["text"], c["start_logit"] + c["end_logit"]) for c in nbest]


def answers(
  nbest: Sequence[Mapping[str, Any]],
  null_odds: float | None = None,
  threshold: float = 0.0,
  atol: float = ATOL,
) -> Collection[str]:
  """Returns the answers that an n-best list allows up to rounding.

  Args:
    nbest: recorded entries with text, start_logit and end_logit.
    null_odds: recorded for the question; None before version 2.0.
    threshold: the answer is "" if null_odds are above it.
    atol: tolerance of each logit and of null_odds.
  """
  spans = [entry for entry in nbest if null_odds is None or entry["text"]]
  allowed = best(dict(_ranking(spans)), 2 * atol) if spans else {""}
  if null_odds is None or null_odds < threshold - atol:
    return allowed
  return {""} if null_odds > threshold + atol else {"", *allowed}
