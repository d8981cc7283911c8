"""SQuAD's scores, by hand, by brute force and against published figures."""

import json
import random

import pytest

from bert_tf.tasks.squad import examples, metrics


@pytest.mark.parametrize(
  "text,expected",
  [
    ("The  Cat's\tHat!", "cats hat"),
    ("an apple a day", "apple day"),
    # An article is a word of its own; an underscore is punctuation.
    ("Atheist the_a", "atheist thea"),
    ("a-b", "ab"),
    ("«é» 5.0%", "«é» 50"),
    ("The.", ""),
  ],
)
def test_normalized_answers(text, expected):
  assert metrics.normalize_answer(text) == expected


@pytest.mark.parametrize(
  "prediction,answer,f1",
  [
    ("the big cat", "cat", 2 / 3),
    ("Cat", "the cat!", 1.0),
    # Common words count as often as in both: x, x of 3 and of 2.
    ("x x x", "x x", 0.8),
    ("dog", "cat", 0.0),
    ("", "cat", 0.0),
  ],
)
def test_f1_counts_common_words(prediction, answer, f1):
  assert metrics.token_f1(prediction, answer) == pytest.approx(f1)


def test_the_best_answer_counts():
  answers = metrics.SquadAnswers(
    {"q": ("big dog", "the big cat"), "r": ("x",)}, is_v2=False
  )
  predictions = {"q": "big cat", "r": "x y", "elsewhere": "z"}
  assert metrics.squad_scores(answers, predictions) == {
    "q": (1.0, 1.0),
    "r": (0.0, pytest.approx(2 / 3)),
  }
  assert metrics.squad_summary(answers, predictions) == {
    "exact_match": 50.0,
    "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
    "total": 2,
  }


def test_v2_is_also_scored_with_and_without_answer():
  answers = metrics.SquadAnswers(
    # "The" is empty once normalised, so v2 expects "".
    {"q": ("cat",), "the": ("The",), "n": (), "m": ()},
    is_v2=True,
  )
  predictions = {"q": "big cat", "the": "", "n": "", "m": "cat"}
  assert metrics.squad_summary(answers, predictions) == {
    "exact_match": 50.0,
    "f1": pytest.approx(100 * (2 / 3 + 1 + 1) / 4),
    "total": 4,
    "HasAns_exact": 50.0,
    "HasAns_f1": pytest.approx(100 * (2 / 3 + 1) / 2),
    "HasAns_total": 2,
    "NoAns_exact": 50.0,
    "NoAns_f1": 50.0,
    "NoAns_total": 2,
  }


def test_best_thresholds_equal_a_search_over_all():
  rng = random.Random(5)
  for _ in range(50):
    ids = [f"q{i}" for i in range(8)]
    texts = {i: rng.choice([("cat",), ("a dog",), ()]) for i in ids}
    answers = metrics.SquadAnswers(texts, is_v2=True)
    predictions = {i: rng.choice(["cat", "big cat", "dog", ""]) for i in ids}
    # Few distinct values, so that some odds are equal.
    odds = {i: float(rng.randrange(-3, 3)) for i in ids}
    best = metrics.best_null_thresholds(answers, predictions, odds)
    for name, key in (("exact", "exact_match"), ("f1", "f1")):
      scores = {}
      for threshold in range(-5, 4):
        thresholded = {
          i: "" if odds[i] > threshold else predictions[i] for i in ids
        }
        scores[threshold] = metrics.squad_summary(answers, thresholded)[key]
      assert best[f"best_{name}"] == pytest.approx(max(scores.values()))
      assert scores[best[f"best_{name}_thresh"]] == pytest.approx(
        max(scores.values())
      )


@pytest.mark.parametrize(
  "predictions,data,exact,f1",
  [
    ("v1.1-BERT-ensemble", "dev-v1.1", 86.206, 92.196),
    ("v2.0-BERT-single", "dev-v2.0", 78.742, 81.775),
  ],
)
def test_published_predictions_have_their_scores(
  unpacked, predictions, data, exact, f1
):
  folder = unpacked("squad")
  questions = examples.read_squad_examples(
    str(folder / f"{data}.json"), is_training=False
  )
  path = folder / "published_bert_predictions" / f"{predictions}.json"
  answers = metrics.correct_answers(questions)
  results = metrics.squad_summary(answers, json.loads(path.read_text()))
  assert round(results["exact_match"], 3) == exact
  assert round(results["f1"], 3) == f1
  assert ("NoAns_total" in results) == (data == "dev-v2.0")
