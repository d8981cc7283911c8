"""Comparisons only allow near ties to change places."""

import pytest

from tests.support import near_ties

RECORDED = [("a", 3.0), ("onwa", 1.0000003), ("er, o", 1.0), ("z", -2.0)]


def swapped(ranking, place, other):
  """Returns a ranking with two candidates exchanged, but not their scores."""
  names = [name for name, _ in ranking]
  names[place], names[other] = names[other], names[place]
  return [(name, score) for name, (_, score) in zip(names, ranking)]


def test_near_ties_may_change_places():
  near_ties.assert_ranking(RECORDED, RECORDED)
  near_ties.assert_ranking(swapped(RECORDED, 1, 2), RECORDED)
  # Here, each candidate keeps its score.
  actual = [RECORDED[0], RECORDED[2], RECORDED[1], RECORDED[3]]
  near_ties.assert_ranking(actual, RECORDED)


@pytest.mark.parametrize(
  "actual",
  [
    swapped(RECORDED, 0, 1),
    swapped(RECORDED, 2, 3),
    RECORDED[:3],
    [*RECORDED[:3], ("new", -2.0)],
    [*RECORDED[:3], ("z", -2.0001)],
  ],
)
def test_a_real_difference_is_refused(actual):
  with pytest.raises(AssertionError):
    near_ties.assert_ranking(actual, RECORDED)


def test_a_choice_is_the_best_or_near_it():
  scores = [[0.5, 0.5 - 3e-7, 0.1], [0.1, 0.2, 0.7]]
  for first in "xy":
    near_ties.assert_best([first, "z"], scores, "xyz")
  for actual in (["z", "z"], ["x", "y"], ["x"], ["x", "other"]):
    with pytest.raises(AssertionError):
      near_ties.assert_best(actual, scores, "xyz")


def test_an_accuracy_may_count_a_near_tie_or_not():
  scores = [[0.5, 0.5 - 3e-7, 0.1], [0.1, 0.2, 0.7]]
  for actual in (0.5, 1.0):
    near_ties.assert_accuracy(actual, scores, [1, 2])
  near_ties.assert_accuracy(0.5, scores, [2, 2])
  for actual in (0.0, 1.0):
    with pytest.raises(AssertionError):
      near_ties.assert_accuracy(actual, scores, [2, 2])


def entry(text, start_logit, end_logit, probability=0.5):
  return {
    "text": text,
    "probability": probability,
    "start_logit": start_logit,
    "end_logit": end_logit,
  }


NBEST = [entry("one", 2.0, 1.0), entry("two", 0.9999997, 2.0)]


def test_nbest_entries_bring_their_own_logits_to_another_place():
  near_ties.assert_nbest(NBEST[::-1], NBEST)
  logits_exchanged = [entry("two", 2.0, 1.0), entry("one", 0.9999997, 2.0)]
  other_chance = [NBEST[0], entry("two", 0.9999997, 2.0, 0.4)]
  for actual in (logits_exchanged, other_chance, NBEST[:1]):
    with pytest.raises(AssertionError):
      near_ties.assert_nbest(actual, NBEST)


@pytest.mark.parametrize(
  ("nbest", "null_odds", "expected"),
  [
    (NBEST, None, {"one", "two"}),
    ([*NBEST, entry("", 5.0, 5.0)], -1.0, {"one", "two"}),
    (NBEST, 1.0, {""}),
    (NBEST, 0.000001, {"", "one", "two"}),
    ([NBEST[0], entry("far", 1.0, 1.0)], None, {"one"}),
  ],
)
def test_an_answer_is_the_best_or_near_it(nbest, null_odds, expected):
  assert near_ties.answers(nbest, null_odds) == expected
