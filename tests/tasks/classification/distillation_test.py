"""Distillation: the loss against NumPy, and students of tiny teachers."""

import json

import numpy as np
import pytest
from scipy import special

import bert_tf
from bert_tf.model import losses
from tests.support import tiny_models

N = 48
WORDS = ("hotel", "star", "river", "city")
TEXTS = [f"the {WORDS[i % 4]}{' a' * (i % 3)}" for i in range(N)]
SETTINGS = {
  "num_train_epochs": 20.0,
  "train_batch_size": 8,
  "learning_rate": 5e-3,
  "max_seq_length": 16,
  "use_xla": False,
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
  """Returns config and vocabulary of a tiny model."""
  path = tmp_path_factory.mktemp("bert") / "config.json"
  path.write_text(json.dumps(vars(tiny_models.CONFIG)))
  vocab_file = str(tiny_models.TINY / "vocab.txt")
  return {"bert_config_file": str(path), "vocab_file": vocab_file}


LABELS = {
  "classification": [("good", "bad")[i % 2] for i in range(N)],
  "multilabel": [(["wet"] if i % 4 > 1 else []) + ["old"] for i in range(N)],
  "regression": [float(i % 4) for i in range(N)],
}


@pytest.fixture(scope="module")
def teachers(bert, tmp_path_factory):
  """Returns the folders of trained teachers by problem type."""
  folder = tmp_path_factory.mktemp("teachers")
  for problem_type, labels in LABELS.items():
    model = bert_tf.Classifier(
      **bert, output_dir=str(folder / problem_type), problem_type=problem_type
    )
    model.fit(TEXTS, labels, **SETTINGS)
  return folder


def test_the_loss_is_the_cross_entropy_of_softened_probabilities():
  generator = np.random.default_rng(1)
  student, teacher = generator.normal(size=(2, 5, 3), scale=2).astype("float32")
  softened = special.softmax(teacher / 3, axis=-1)
  expected = -9 * (softened * special.log_softmax(student / 3, axis=-1)).sum(-1)
  found = losses.distillation_loss(student, teacher, 3.0, "classification")
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  p, q = special.expit(student / 3), special.expit(teacher / 3)
  expected = -9 * (q * np.log(p) + (1 - q) * np.log(1 - p)).mean(-1)
  found = losses.distillation_loss(student, teacher, 3.0, "multilabel")
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  a, b = student[:, :1], teacher[:, :1]
  found = losses.distillation_loss(a, b, 3.0, "regression")
  np.testing.assert_allclose(found, (a - b)[:, 0] ** 2, rtol=1e-4)


@pytest.mark.parametrize("problem_type", LABELS)
def test_a_student_learns_the_answers_of_its_teacher_without_labels(
  bert, teachers, tmp_path, problem_type
):
  teacher = bert_tf.load(teachers / problem_type)
  student = bert_tf.Classifier(
    **bert,
    output_dir=str(tmp_path / "student"),
    problem_type=problem_type,
    teacher=str(teachers / problem_type),
    distillation_weight=1.0,
  )
  student.fit(TEXTS, **{**SETTINGS, "num_train_epochs": 40.0})
  for ours, theirs in zip(student.predict(TEXTS), teacher.predict(TEXTS)):
    if problem_type == "regression":
      assert ours["label"] == pytest.approx(theirs["label"], abs=0.5)
    else:
      assert ours["label"] == theirs["label"]
      assert ours["probabilities"] == pytest.approx(
        theirs["probabilities"], abs=0.3
      )


def test_rows_of_a_file_may_lack_labels_and_are_not_held_out(
  bert, teachers, tmp_path, run_script
):
  rows = [
    {"text": text} | ({"label": label} if i < 24 else {"label": None})
    for i, (text, label) in enumerate(zip(TEXTS, LABELS["classification"]))
  ]
  rows = [{**row, "text": f"{row['text']} {i}"} for i, row in enumerate(rows)]
  path = tmp_path / "rows.jsonl"
  path.write_text("".join(json.dumps(row) + "\n" for row in rows))
  flags = (
    *(f"--data_file={path}", "--do_train", "--do_eval", "--eval_fraction=0.3"),
    *(f"--{name}={value}" for name, value in (bert | SETTINGS).items()),
  )
  result = run_script("classifier", *flags, "--output_dir=no", cwd=tmp_path)
  assert result.returncode == 1
  assert "rows.jsonl:25: label None" in result.stderr
  teacher = f"--teacher={teachers / 'classification'}"
  result = run_script(
    "classifier", *flags, teacher, "--output_dir=out", cwd=tmp_path
  )
  assert result.returncode == 0, result.stderr
  split = json.loads((tmp_path / "out" / "data_split.json").read_text())
  assert len(split["dev"]) == 14
  assert max(split["dev"]) < 24


def test_the_loss_weighs_teacher_and_labels(bert, teachers, tmp_path):
  def train(output_dir, labels, **settings):
    model = bert_tf.Classifier(
      **bert, output_dir=str(tmp_path / output_dir), **settings
    )
    model.fit(TEXTS, labels, **{**SETTINGS, "num_train_epochs": 3.0})
    return model.predict_proba(TEXTS)

  labels = LABELS["classification"]
  teacher = {"teacher": str(teachers / "classification")}
  plain = train("plain", labels)
  same = train("same", labels, **teacher, distillation_weight=0.0)
  np.testing.assert_allclose(same, plain, atol=1e-6)
  wrong = [{"good": "bad", "bad": "good"}[label] for label in labels]
  alone = train("alone", labels, **teacher, distillation_weight=1.0)
  same = train("ignored", wrong, **teacher, distillation_weight=1.0)
  np.testing.assert_allclose(same, alone, atol=1e-6)


def test_a_teacher_of_other_labels_is_refused(bert, teachers, tmp_path):
  model = bert_tf.Classifier(
    **bert,
    output_dir=str(tmp_path / "student"),
    teacher=str(teachers / "regression"),
  )
  with pytest.raises(ValueError, match="`teacher`"):
    model.fit(TEXTS, LABELS["classification"], **SETTINGS)
