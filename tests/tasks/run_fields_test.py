"""Data and results of a run in its run.json."""

import json

import pytest
from bert_tf.tasks.classification.examples import InputExample
from bert_tf.tasks.swag.examples import ChoiceExample

from bert_tf.model_folder import run_info
from bert_tf.tasks import fine_tuning, splits
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.ner.examples import Sentence
from bert_tf.tasks.squad import examples as squad_examples
from bert_tf.tasks.squad import task as squad
from bert_tf.tasks.swag import task as swag
from tests.support import own_classification, runs

base = own_classification.base


def read_example(task_class, example):
  return task_class.inputs_and_answer(None, example)


def test_examples_have_the_format_of_serving_requests():
  pair = InputExample("dev-1", "He left.", "He went.", "1")
  assert read_example(classification.ClassificationTask, pair) == (
    {"text": "He left.", "text_b": "He went."},
    "1",
  )
  text = InputExample("dev-2", "He left.", None, 2.5)
  assert read_example(classification.ClassificationTask, text) == (
    {"text": "He left."},
    2.5,
  )
  choice = ChoiceExample("dev-0", "He left.", "He", ("goes.", "went."), 1)
  assert read_example(swag.SwagTask, choice) == (
    {"context": "He left.", "choices": ["He goes.", "He went."]},
    1,
  )
  sentence = Sentence(("Ada", "left"), ("B-PER", "O"), 1)
  assert read_example(ner.NerTask, sentence) == (
    {"text": "Ada left"},
    ("B-PER", "O"),
  )
  sentence = Sentence(("Ada Byron", "left"), ("B-PER", "O"), 1)
  assert read_example(ner.NerTask, sentence) == ({}, ("B-PER", "O"))
  context = squad_examples.Context("Ada left.")
  for answers, answer in ((("Ada",), "Ada"), ((), None), (None, None)):
    question = squad_examples.SquadExample("1", "Who?", context, answers, None)
    assert read_example(squad.SquadTask, question) == (
      {"question": "Who?", "context": "Ada left."},
      answer,
    )


class Texts:
  """A task of pairs of a text and a label."""

  def inputs_and_answer(self, example):
    text, label = example
    return ({"text": text} if text else {}), label


def run_fields(examples, count):
  return splits.Splits(Texts(), examples, {}).run_fields(count)


def choose_texts(examples, count):
  fields = run_fields({"dev": examples}, count)
  return [(e["inputs"]["text"], e["answer"]) for e in fields["shown"] or ()]


def test_each_answer_has_one_example_before_any_has_two():
  examples = [("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "y")]
  assert choose_texts(examples, 3) == [("a", "x"), ("d", "y"), ("b", "x")]
  assert choose_texts(examples, 1) == [("a", "x")]


def test_a_text_is_an_example_once():
  examples = [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")]
  assert choose_texts(examples, 3) == [("a", "x"), ("b", "x")]


def test_long_texts_are_cut_and_examples_without_inputs_left_out():
  examples = [("a" * 1001, "x"), ("", "x"), ("a" * 1000, "x")]
  assert choose_texts(examples, 3) == [("a" * 1000, "x")]


def test_a_cut_text_ends_with_a_whole_character():
  half = "\ud83d"
  examples = [(f"a {half}", "x"), ("b", half), ("\U0001f600", "x")]
  assert choose_texts(examples, 3) == [("\U0001f600", "x")]


def test_zero_examples_may_be_requested():
  assert choose_texts([("a", "x")], 0) == []
  assert run_fields({}, 0) == {"shown": None}
  # Fields of an earlier command stay.
  assert run_fields({}, 3) == {}
  counts = run_fields({"train": [1, 2]}, 3)
  assert counts == {"num_train": 2}


def run_json(folder):
  return json.loads((folder / "run.json").read_text())


def test_run_json_has_examples_counts_and_scores(base, tmp_path):
  def run(**changes):
    # The first run only trains; the evaluation adds to its run.json.
    fine_tuning.run(own_classification.make(base, tmp_path / "out", **changes))
    return run_json(tmp_path / "out")

  trained = run(do_train=True)
  assert trained["examples"] == {"num_train": 44}
  assert "scores" not in trained
  with runs.logged() as log:
    evaluated = run(do_eval=True)
  assert "run.json keeps 3 dev texts" in log()
  examples = evaluated["examples"]
  assert (examples["num_train"], examples["num_dev"]) == (44, 11)
  texts = [e["inputs"]["text"] for e in examples["shown"]]
  dev = (base / "dev.tsv").read_text().splitlines()[1:]
  assert len(texts) == 3 and set(texts) <= {r.split("\t")[0] for r in dev}
  assert {e["answer"] for e in examples["shown"]} == {"good", "bad"}
  results = runs.results(tmp_path / "out")
  scores = dict(evaluated["scores"])
  # The dev file has 6 times the label "good", of 11.
  is_near = scores["eval_accuracy"] <= 6 / 11 + 2 * (6 * 5 / 11**3) ** 0.5
  assert scores.pop("near_chance", None) == (6 / 11 if is_near else None)
  for name, value in scores.items():
    assert value == pytest.approx(float(results[name]), rel=1e-4)
  assert "eval_accuracy" in evaluated["scores"]
  predicted = run(do_predict=True)
  assert predicted == evaluated
  assert "shown" not in run(do_predict=True, num_run_examples=0)["examples"]
  info = run_info.read_run(str(tmp_path / "out"))
  assert info.scores == evaluated["scores"]


def test_scores_belong_to_the_last_checkpoint(base, tmp_path, monkeypatch):
  values = iter([0.9, 0.5, 0.4, 0.3, 0.2, 0.1, 0.7])
  monkeypatch.setattr(
    classification.ClassificationTask,
    "scores",
    lambda *_: {"macro_f1": next(values)},
  )

  def run(epochs, **changes):
    plan = {"eval_every_steps": 3}
    fine_tuning.run(
      own_classification.make(
        base, tmp_path, plan, num_train_epochs=epochs, **changes
      )
    )
    return [
      run_json(folder).get("scores", {}).get("macro_f1")
      for folder in (tmp_path, tmp_path / "best")
    ]

  # Evaluates at steps 3 and 5, and the last checkpoint once more.
  with runs.logged() as log:
    assert run(1.0, do_train=True, do_eval=True) == [0.4, 0.9]
  assert log().endswith(f"bert-tf serve --model={tmp_path}/best\n")
  # Training continues: the scores belong to none of its checkpoints.
  assert run(2.0, do_train=True) == [None, 0.9]
  assert run(2.0, do_eval=True) == [0.7, 0.9]
  # No step is left to train.
  assert run(2.0, do_train=True) == [0.7, 0.9]
