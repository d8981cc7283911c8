"""SQuAD's scores, by hand, by brute force and against published figures."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_tf.tasks.squad import metrics

# A prediction, an accepted answer, its exact match and F1.
SCORES = [
  ("the big cat", "cat", 0.0, 2 / 3),
  ("The  Cat's\tHat!", "cats hat", 1.0, 1.0),
  # Common words count as often as in both: x, x of 3 and of 2.
  ("x x x", "x x", 0.0, 0.8),
  ("dog", "cat", 0.0, 0.0),
  # An article is a word of its own; an underscore is punctuation.
  ("Atheist the_a", "atheist thea", 1.0, 1.0),
  ("", "cat", 0.0, 0.0),
  (None, "cat", 0.0, 0.0),
]


@pytest.mark.parametrize("prediction,answer,exact,f1", SCORES)
def test_normalized_words_are_compared(prediction, answer, exact, f1):
  predictions = {} if prediction is None else {"q": prediction, "x": "y"}
  scores = metrics.compute_scores(make_rows(q=["z", answer]), predictions)
  expected = {"exact_match": 100 * exact, "f1": 100 * f1, "total": 1}
  assert scores == pytest.approx(expected)


def make_rows(**answers):
  """Returns questions with these answers; without any, they are impossible."""
  return [
    {"id": name, "answers": texts, "is_impossible": not texts}
    for name, texts in answers.items()
  ]


def test_v2_is_also_scored_with_and_without_answer():
  # "The" is empty once normalised, so v2 expects "".
  rows = make_rows(q=["cat"], the=["The"], n=[], m=[])
  predictions = {"q": "big cat", "the": "", "n": "", "m": "cat"}
  whole = {"exact_match": 50, "f1": 100 * (2 / 3 + 1 + 1) / 4, "total": 4}
  has_answer = {"exact": 50, "f1": 100 * (2 / 3 + 1) / 2, "total": 2}
  no_answer = {"exact": 50, "f1": 50, "total": 2}
  assert metrics.compute_scores(rows, predictions) == pytest.approx(
    whole
    | {f"HasAns_{name}": value for name, value in has_answer.items()}
    | {f"NoAns_{name}": value for name, value in no_answer.items()}
  )


def test_data_are_v2_if_a_question_is_impossible(caplog):
  def is_v2(rows, **settings):
    return "NoAns_total" in metrics.compute_scores(rows, {"q": "a"}, **settings)

  [answered], [null] = make_rows(q=["a"]), make_rows(r=[])
  unmarked = {**null, "is_impossible": None}
  assert is_v2([answered, null])
  assert not is_v2([answered, unmarked])
  assert is_v2([answered, unmarked], version_2_with_negative=True)
  assert not is_v2([answered], version_2_with_negative=True)
  # A question without the field is not scored, with a warning.
  unknown = {**unmarked, "answers": None}
  scores = metrics.compute_scores([answered, unknown], {"q": "a"})
  assert scores["total"] == 1 and " r." in caplog.text
  # Test sets: without the field, or with an empty one throughout.
  for row in (unknown, unmarked):
    assert metrics.compute_scores([row], {"r": "a"}) == {}


# Few distinct odds, so that some are equal.
QUESTIONS = st.tuples(
  st.sampled_from([["cat"], ["a dog"], []]),
  st.sampled_from(["cat", "big cat", "dog", ""]),
  st.integers(-3, 2),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(QUESTIONS, min_size=1, max_size=8))
def test_best_thresholds_equal_a_search_over_all(questions):
  texts, spans, odds = (
    {f"q{i}": value for i, value in enumerate(values)}
    for values in zip(*questions)
  )
  rows = [*make_rows(**texts), *make_rows(impossible=[])]
  spans["impossible"], odds["impossible"] = "", 0
  best = metrics.compute_scores(rows, spans, True, odds)
  for name, key in (("exact", "exact_match"), ("f1", "f1")):
    scores = {}
    for threshold in range(-5, 4):
      predictions = {i: "" if odds[i] > threshold else spans[i] for i in spans}
      scores[threshold] = metrics.compute_scores(rows, predictions)[key]
    highest = pytest.approx(max(scores.values()))
    assert best[f"best_{name}"] == highest
    assert scores[best[f"best_{name}_thresh"]] == highest


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
  results = metrics.evaluate_files(
    str(folder / "published_bert_predictions" / f"{predictions}.json"),
    str(folder / f"{data}.json"),
  )
  assert round(results["exact_match"], 3) == exact
  assert round(results["f1"], 3) == f1
  assert ("NoAns_total" in results) == (data == "dev-v2.0")


@pytest.fixture
def data_file(tmp_path):
  qas = [
    {"id": i, "question": "?", "answers": [{"text": "a cat"}]} for i in "qr"
  ]
  qas.append({"id": "n", "question": "?", "answers": []})
  paragraphs = [{"context": "a cat", "qas": qas}]
  path = tmp_path / "data.json"
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
  return str(path)


def test_the_script_prints_scores_and_thresholds(
  data_file, tmp_path, run_script
):
  predictions = {"q": "cat", "r": "dog", "n": "cat"}
  (tmp_path / "p.json").write_text(json.dumps(predictions))
  # Null odds make questions without answers those of SQuAD 2.0.
  assert "NoAns_total" not in metrics.evaluate_files(
    str(tmp_path / "p.json"), data_file
  )
  (tmp_path / "o.json").write_text(json.dumps({"q": -2, "r": 1, "n": 0.5}))
  result = run_script(
    *("squad-evaluate", "p.json", data_file, "--null_odds_file=o.json"),
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  lines = result.stdout.splitlines()
  assert lines == sorted(lines)
  values = {
    name: float(value) for name, value in (line.split(" = ") for line in lines)
  }
  assert values["exact_match"] == pytest.approx(100 / 3)
  assert values["best_exact"] == pytest.approx(200 / 3)
  assert values["best_exact_thresh"] == -2
  names = "exact_match f1 total best_exact best_exact_thresh best_f1"
  names += " best_f1_thresh HasAns_exact HasAns_f1 HasAns_total"
  names += " NoAns_exact NoAns_f1 NoAns_total"
  assert set(values) == {*names.split()}


@pytest.mark.parametrize(
  "predictions,odds,expected",
  [
    ("[]", "{}", "p.json: it is []"),
    ('{"q": [{"text": "a"}, 1]}', "{}", "1 is 1;"),
    ('{"z": "a"}', "{}", "p.json answers no question of {data_file}"),
    ('{"q": "a"}', '{"q": 1}', "o.json lacks 2 questions"),
    ('{"q": "a"}', '{"q": "x"}', 'o.json: q is "x"'),
  ],
)
def test_other_json_files_are_refused(
  data_file, tmp_path, predictions, odds, expected
):
  (tmp_path / "p.json").write_text(predictions)
  (tmp_path / "o.json").write_text(odds)
  with pytest.raises(ValueError) as error:
    metrics.evaluate_files(
      str(tmp_path / "p.json"), data_file, str(tmp_path / "o.json")
    )
  assert expected.format(data_file=data_file) in str(error.value)


def test_an_ensemble_answers_with_the_highest_mean_probability(tmp_path):
  # A text that a file lacks has a probability of 0 there.
  for run, texts in enumerate(({"cat": 0.5, "dog": 0.4}, {"dog": 0.3})):
    nbest = [
      {"text": text, "probability": probability, "start_logit": 0.0}
      for text, probability in texts.items()
    ]
    (tmp_path / f"nbest{run}.json").write_text(json.dumps({"q": nbest}))
  for pattern, text in (("nbest*", "dog"), ("nbest0", "cat")):
    files = str(tmp_path / f"{pattern}.json")
    assert metrics.read_predictions(files) == {"q": text}
