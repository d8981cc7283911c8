"""Data and results of a run in its run.json."""

import json

import pytest

from bert_tf.checkpoint import run_info
from bert_tf.tasks import fine_tuning, splits
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.ner import examples as ner_examples
from bert_tf.tasks.ner import task as ner
from bert_tf.tasks.squad import task as squad
from bert_tf.tasks.swag import task as swag
from tests.support import own_classification, runs, setups

base = own_classification.base


def test_examples_have_the_format_of_serving_requests(tmp_path):
  path = tmp_path / "train.txt"
  path.write_text("Ada\tB-PER\nleft\tO\n\nAda Byron\tB-PER\nleft\tO\n")
  one_word, two_words = ner_examples.read_sentences(str(path))
  for task_class, row, expected in (
    (
      classification.ClassificationTask,
      {"id": "dev-1", "text": "He left.", "text_b": "He went.", "label": "1"},
      {"text": "He left.", "text_b": "He went."},
    ),
    (
      classification.ClassificationTask,
      {"id": "dev-2", "text": "He left.", "label": 2.5},
      {"text": "He left."},
    ),
    (
      swag.SwagTask,
      {"id": "dev-0", "context": "He left.", "choices": ["He goes."]},
      {"context": "He left.", "choices": ["He goes."]},
    ),
    (ner.NerTask, one_word, {"text": "Ada left"}),
    (ner.NerTask, two_words, {}),  # A text would have another word.
    (
      squad.SquadTask,
      {"question": "Who?", "context": "Ada left.", "answers": ["Ada"]},
      {"question": "Who?", "context": "Ada left."},
    ),
  ):
    task = task_class(tokenizer=None, settings=None)
    assert task.inputs_of(row) == expected


HALF = "\ud83d"  # Of a character, which served models reject.


@pytest.mark.parametrize(
  ("examples", "count", "expected"),
  [
    # Each answer has one example before any has two.
    ("ax bx cx dy ey", 3, "ax dy bx"),
    ("ax bx cx dy ey", 1, "ax"),
    ("ax ax ay bx", 3, "ax bx"),  # A text is an example once.
    (["a" * 1001 + "x", "x", "a" * 1000 + "x"], 3, ["a" * 1000 + "x"]),
    ([f"a{HALF}x", f"b{HALF}", "\U0001f600x"], 3, ["\U0001f600x"]),
    ("ax", 0, ""),
  ],
)
def test_examples_are_short_and_different(examples, count, expected):
  """Each is a text and its label, the last letter."""
  if isinstance(examples, str):
    examples, expected = examples.split(), expected.split()
  task = setups.Texts(tokenizer=None, settings=None)
  rows = [
    {"text": each[:-1], "label": each[-1]} if each[:-1] else {"label": each}
    for each in examples
  ]
  chosen = splits.choose_examples(task, rows, count)
  assert [e["inputs"]["text"] + e["answer"] for e in chosen] == expected


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
    "score",
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
