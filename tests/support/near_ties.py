"""Comparisons of rankings whose scores carry the rounding of float32.

Processors and libraries add floats in other orders, so two candidates whose
scores differ by less than the tolerance may stand in either order. That alone
is allowed here: no other candidate, no other score, no other place.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

# Of a float32 forward pass.
ATOL = 1e-5


def assert_ranking(
  found: Sequence[tuple[str, float]],
  expected: Sequence[tuple[str, float]],
  atol: float = ATOL,
) -> None:
  """Asserts that two rankings agree but for the order of near ties.

  Args:
    found: (candidate, score), in the order to check.
    expected: the same, as recorded or computed in another way.
    atol: how far two scores may differ at one place, and how far the expected
      scores of candidates may differ that change places.
  """
  assert sorted(c for c, _ in found) == sorted(c for c, _ in expected)
  scores = [score for _, score in expected]
  np.testing.assert_allclose([s for _, s in found], scores, rtol=0, atol=atol)
  free = list(expected)
  for place, (candidate, _) in enumerate(found):
    index = next(i for i, (c, _) in enumerate(free) if c == candidate)
    _, own_score = free.pop(index)
    assert abs(own_score - scores[place]) <= atol, (
      f"{candidate!r} is at place {place}, where the score is "
      f"{scores[place]}; its own is {own_score}."
    )


def best(scores: Mapping[Any, float], atol: float = ATOL) -> set[Any]:
  """Returns the candidates that rounding may make the best one."""
  highest = max(scores.values())
  return {c for c, score in scores.items() if score >= highest - atol}


def assert_best(
  found: Sequence[Any],
  expected: Sequence[Sequence[float]],
  candidates: Sequence[Any],
  atol: float = ATOL,
) -> None:
  """Asserts that each choice is the best one, or one of those near it.

  Args:
    found: one choice a row.
    expected: [rows, candidates]. The expected scores.
    candidates: what the columns of `expected` are the scores of.
    atol: how far below the best score a choice may be.
  """
  assert len(found) == len(expected)
  for row, (choice, scores) in enumerate(zip(found, expected)):
    allowed = best(dict(zip(candidates, scores, strict=True)), atol)
    assert choice in allowed, f"row {row}: {choice!r}, not of {allowed}"


def assert_accuracy(
  found: float,
  expected: Sequence[Sequence[float]],
  right: Sequence[int],
  atol: float = ATOL,
) -> None:
  """Asserts that an accuracy is that of the scores but for near ties.

  Args:
    found: share of the rows whose best score is the right one.
    expected: [rows, classes]. The expected scores.
    right: [rows]. The right class of each.
    atol: how far below the best score a choice may be.
  """
  choices = [best(dict(enumerate(scores)), atol) for scores in expected]
  certain = np.mean([{i} == c for i, c in zip(right, choices, strict=True)])
  possible = np.mean([i in c for i, c in zip(right, choices)])
  assert certain <= found <= possible


def assert_nbest(
  found: Sequence[Mapping[str, Any]],
  expected: Sequence[Mapping[str, Any]],
  atol: float = ATOL,
) -> None:
  """Asserts that n-best lists of SQuAD agree but for near ties.

  Args:
    found: text, probability, start_logit and end_logit of each candidate.
    expected: the same, as recorded or computed in another way.
    atol: of each number, and of the sum of the logits in a near tie.
  """
  assert_ranking(_ranking(found), _ranking(expected), 2 * atol)
  by_text = {entry["text"]: entry for entry in found}
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
  """Returns the answers that rounding may make of an n-best list of SQuAD.

  Args:
    nbest: as recorded, with text, start_logit and end_logit.
    null_odds: as recorded for the question; None before version 2.0.
    threshold: null_odds above it make the answer "".
    atol: of the sum of the logits, and of null_odds.
  """
  spans = [entry for entry in nbest if null_odds is None or entry["text"]]
  allowed = best(dict(_ranking(spans)), 2 * atol) if spans else {""}
  if null_odds is None or null_odds < threshold - atol:
    return allowed
  return {""} if null_odds > threshold + atol else {"", *allowed}
