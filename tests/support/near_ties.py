"""Comparisons of choices whose scores have rounding errors of float32.

Processors and libraries sum floats in different orders, so two candidates with
nearly equal scores may change places. The functions here allow only this.
"""

import numpy as np

# Tolerance of a float32 forward pass.
ATOL = 1e-5


def best(scores, atol=ATOL):
  """Returns the candidates whose score, by candidate, is nearly the best."""
  highest = max(scores.values())
  return {c for c, score in scores.items() if score >= highest - atol}


def assert_best(actual, expected, candidates):
  """Asserts that each choice is the best one, up to near ties.

  `expected`, [rows, candidates], has the scores, and `candidates` their names.
  """
  assert len(actual) == len(expected)
  for row, (choice, scores) in enumerate(zip(actual, expected)):
    allowed = best(dict(zip(candidates, scores, strict=True)))
    assert choice in allowed, f"row {row}: {choice!r} is not in {allowed}"


def assert_nbest(actual, expected, atol=ATOL):
  """Asserts that n-best lists of SQuAD agree, except for near ties.

  Their entries have text, probability, start_logit and end_logit.
  """
  by_text = {entry["text"]: entry for entry in expected}
  assert sorted(by_text) == sorted(entry["text"] for entry in actual)
  for entry in actual:
    for name in ("probability", "start_logit", "end_logit"):
      value = by_text[entry["text"]][name]
      np.testing.assert_allclose(entry[name], value, rtol=0, atol=atol)
  # The order is that of the recorded scores, each a sum of two logits.
  scores = [_score(by_text[entry["text"]]) for entry in actual]
  assert np.all(np.diff(scores) <= 2 * atol)


def _score(entry):
  return entry["start_logit"] + entry["end_logit"]


def answers(nbest, null_odds=None, threshold=0.0, atol=ATOL):
  """Returns the answers that an n-best list allows up to rounding.

  The answer is "" if `null_odds` are above `threshold`. Version 1.1 has none.
  """
  spans = [entry for entry in nbest if null_odds is None or entry["text"]]
  scores = {entry["text"]: _score(entry) for entry in spans}
  allowed = best(scores, 2 * atol) if spans else {""}
  if null_odds is None or null_odds < threshold - atol:
    return allowed
  return {""} if null_odds > threshold + atol else {"", *allowed}


def close(actual, expected):
  """Whether nested answers are equal, but for the rounding of floats."""
  if hasattr(expected, "vectors"):
    return np.allclose(actual.vectors, expected.vectors, atol=ATOL)
  if isinstance(expected, dict):
    return actual.keys() == expected.keys() and all(
      close(actual[key], value) for key, value in expected.items()
    )
  if isinstance(expected, list):
    return len(actual) == len(expected) and all(map(close, actual, expected))
  if isinstance(expected, float):
    return abs(actual - expected) <= ATOL
  return actual == expected
