"""Tests for fine-tuning and classifying from Python."""

import json
import pathlib
import shutil

import pytest

from bert_tf import checkpoints
from bert_tf.inference import classifier
from bert_tf.tasks.classification import config as classification_config
from bert_tf.tasks.classification import task as classification
from bert_tf.training import config as training_config
from tests.support import runs

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CONFIG = runs.CONFIG
WORDS = {"of": "good", "and": "bad", "the": "good", "in": "bad"}
TEXTS = [f"{word} {'a ' * (i % 9)}{word}" for i in range(11) for word in WORDS]
LABELS = [WORDS[text.split()[0]] for text in TEXTS]
SETTINGS = {
  "num_train_epochs": 12.0,
  "train_batch_size": 8,
  "learning_rate": 3e-3,
  "use_xla": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("model")
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", folder / "vocab.txt")
  return folder


def make(folder, output_dir, **changes):
  return classifier.Classifier(
    str(folder / "config.json"),
    str(folder / "vocab.txt"),
    str(output_dir),
    **{"max_seq_length": 16, **changes},
  )


@pytest.fixture(scope="module")
def fitted(folder):
  model = make(folder, folder / "out")
  model.fit(TEXTS, LABELS, **SETTINGS)
  return model


def test_training_labels_are_predicted(fitted):
  predictions = fitted.predict(TEXTS)
  assert [p.label for p in predictions] == LABELS
  for prediction in predictions:
    assert list(prediction.probabilities) == ["bad", "good"]
    assert sum(prediction.probabilities.values()) == pytest.approx(1)
    assert prediction.probabilities[prediction.label] > 0.5
  assert fitted.predict([]) == []


def test_run_classifier_trains_to_the_same_weights(folder, fitted, tmp_path):
  lines = [
    json.dumps({"a": text, "label": label})
    for text, label in zip(TEXTS, LABELS)
  ]
  (tmp_path / "train.jsonl").write_text("\n".join(lines))
  classification.run(
    classification_config.ClassificationConfig(
      task_name="jsonl",
      text_a_column="a",
      data_dir=str(tmp_path),
      bert_config_file=str(folder / "config.json"),
      vocab_file=str(folder / "vocab.txt"),
      max_seq_length=16,
      do_train=True,
      num_train_epochs=12.0,
      train=training_config.FineTuningTrainConfig(
        output_dir=str(tmp_path / "out"),
        train_batch_size=8,
        learning_rate=3e-3,
        num_train_steps=1,
        num_warmup_steps=0,
        use_xla=False,
      ),
    )
  )
  ours, theirs = (
    checkpoints.CheckpointReader(str(path / "out" / "model.ckpt-66"))
    for path in (folder, tmp_path)
  )
  assert ours.shapes == theirs.shapes
  for name in ours.shapes:
    assert (ours.get(name) == theirs.get(name)).all(), name
  # The class predicts with the run of the script.
  predictions = make(folder, tmp_path / "out").predict([TEXTS[0]])
  assert predictions == fitted.predict([TEXTS[0]])


def test_a_regression_predicts_numbers(folder, tmp_path):
  model = make(folder, tmp_path)
  numbers = [1.5 if label == "good" else -0.5 for label in LABELS]
  settings = {**SETTINGS, "num_train_epochs": 30.0}
  model.fit(TEXTS, numbers, problem_type="regression", **settings)
  predictions = model.predict(TEXTS[:4])
  assert [p.label for p in predictions] == pytest.approx(numbers[:4], abs=0.4)
  assert predictions[0].probabilities == {}


MISTAKES = {
  "a number as a class": (lambda m: m.fit(["of"] * 2, ["a", 1j]), "row 1: "),
  "no label": (lambda m: m.fit(["of"] * 2, ["a", None]), "row 1 has no label"),
  "lists of two flags": (
    lambda m: m.fit(
      ["of"] * 4, [[1, 0], [0, 1]] * 2, problem_type="multilabel"
    ),
    "multi-hot",
  ),
  "lists of flags": (
    lambda m: m.fit(["of"] * 2, [[1, 0, 0]] * 2, problem_type="multilabel"),
    "row 0: label [1, 0, 0]",
  ),
  "half a character": (
    lambda m: m.fit(["of"] * 2, ["a", "\ud83d"]),
    "row 1: ",
  ),
  "more texts than labels": (
    lambda m: m.fit(TEXTS, LABELS[:-1]),
    "44 rows and 43 labels",
  ),
  "an empty text": (
    lambda m: m.fit(["of", " "], ["a", "b"]),
    "text of row 1",
  ),
  "a number that is text": (
    lambda m: m.fit(["of"], ["one"], problem_type="regression"),
    "row 0: label 'one'",
  ),
  "one text": (lambda m: m.fit("of", "a"), "list of rows"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(folder, tmp_path, mistake):
  act, expected = MISTAKES[mistake]
  with pytest.raises(ValueError) as error:
    act(make(folder, tmp_path / "out"))
  assert expected in str(error.value)
  assert not (tmp_path / "out").exists()


def test_predictions_use_the_fitted_model_not_its_start(
  folder, fitted, tmp_path
):
  model = make(folder, tmp_path / "unused")
  others = ["bad" if label == "good" else "good" for label in LABELS]
  settings = {**SETTINGS, "num_train_epochs": 24.0}
  model.fit(
    TEXTS,
    others,
    init_checkpoint=str(folder / "out"),
    output_dir=str(tmp_path / "out"),
    **settings,
  )
  assert [p.label for p in model.predict(TEXTS)] == others
  assert model.score(TEXTS, others) == 1
  assert checkpoints.list_checkpoints(str(tmp_path / "out"))
  assert not (tmp_path / "unused").exists()
  with pytest.raises(ValueError, match=r"out .*`output_dir`"):
    model.fit(TEXTS, LABELS)
