"""Tests for fitting, predicting and scoring task models from Python."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import bert_tf
from bert_tf.checkpoint import checkpoints
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import config as classification_config
from bert_tf.training import config as training_config
from tests.support import runs, tiny_models

LENGTHS = {"QuestionAnswerer": {"max_query_length": 8, "doc_stride": 8}}

# Rows and labels that each model can learn.
N = 24
SENTENCES = [["the", "of", "in", "and"][i % 4 :] + ["was"] for i in range(N)]
TEXTS = ["of the a", "and the a"] * (N // 2)
LEARNED = {
  "Classifier": (TEXTS, ["1", "0"] * (N // 2)),  # Digits, but not numbers.
  "EntityRecognizer": (
    SENTENCES,
    [["B-X" if w in ("of", "was") else "O" for w in s] for s in SENTENCES],
  ),
  "MultipleChoice": (
    [("the", ["of", "and"][:: 1 if i % 2 else -1]) for i in range(N)],
    np.array([0 if i % 2 else 1 for i in range(N)]),
  ),
  "QuestionAnswerer": (
    [("the", f"{'of ' * (i % 5)}and {'in ' * (i % 3)}") for i in range(N)],
    ["and"] * N,
  ),
}
ANSWERS = {
  "Classifier": lambda answer: answer["label"],
  "EntityRecognizer": lambda answer: [w["label"] for w in answer["words"]],
  "MultipleChoice": lambda answer: answer["choice"],
  "QuestionAnswerer": lambda answer: answer["answer"],
}
SETTINGS = {
  "num_train_epochs": 20.0,
  "train_batch_size": 8,
  "learning_rate": 5e-3,
  "use_xla": False,
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
  folder = tmp_path_factory.mktemp("bert")
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  shutil.copy(tiny_models.TINY / "vocab.txt", folder / "vocab.txt")
  return {
    "bert_config_file": str(folder / "config.json"),
    "vocab_file": str(folder / "vocab.txt"),
  }


def new(name, bert, output_dir, **settings):
  return getattr(bert_tf, name)(
    **bert,
    output_dir=str(output_dir),
    **{"max_seq_length": 32, **LENGTHS.get(name, {}), **settings},
  )


@pytest.mark.parametrize("name", LEARNED)
def test_training_labels_are_predicted_and_scored(bert, tmp_path, name):
  rows, labels = LEARNED[name]
  model = new(name, bert, tmp_path)
  with pytest.raises(ValueError, match="call `fit`"):
    model.score(rows, labels)
  model.fit(rows, labels, (rows[:4], labels[:4]), **SETTINGS)
  answers = [ANSWERS[name](answer) for answer in model.predict(rows)]
  assert answers == list(labels)
  # As in another process, with labels from pandas.
  other = new(name, bert, tmp_path)
  assert other.score(rows, pd.Series(list(labels))) > 0.9
  assert [ANSWERS[name](answer) for answer in other.predict(rows)] == answers
  with pytest.raises(ValueError, match="`output_dir`"):
    other.fit(rows, labels)


def test_run_classifier_trains_to_the_same_weights(bert, tmp_path):
  labels = ["good", "bad"] * (N // 2)
  rows = [{"a": t, "label": label} for t, label in zip(TEXTS, labels)]
  lines = "".join(json.dumps(row) + "\n" for row in rows)
  (tmp_path / "train.jsonl").write_text(lines)
  fine_tuning.run(
    classification_config.ClassificationConfig(
      **bert,
      task_name="jsonl",
      text_a_column="a",
      data_dir=str(tmp_path),
      max_seq_length=32,
      do_train=True,
      num_train_epochs=2.0,
      train=training_config.FineTuningTrainConfig(
        output_dir=str(tmp_path / "script"),
        train_batch_size=8,
        learning_rate=5e-3,
        use_xla=False,
      ),
    )
  )
  model = new("Classifier", bert, tmp_path / "class")
  model.fit(TEXTS, labels, **{**SETTINGS, "num_train_epochs": 2.0})
  ours, theirs = (
    checkpoints.CheckpointReader(str(tmp_path / name / "model.ckpt-6"))
    for name in ("class", "script")
  )
  assert ours.shapes == theirs.shapes
  for name in ours.shapes:
    np.testing.assert_array_equal(ours.get(name), theirs.get(name), name)
  # The class predicts with the run of the script.
  script = new("Classifier", bert, tmp_path / "script")
  assert script.predict(TEXTS[0]) == model.predict(TEXTS[0])


def test_predictions_use_the_fitted_model_not_its_start(bert, tmp_path):
  start, out, unused = (str(tmp_path / n) for n in ("start", "out", "unused"))
  # Names of labels replace the placeholders of Transformers, by their order.
  placeholders, labels = ["LABEL_1", "LABEL_0"] * (N // 2), ["bad", "good"]
  new("Classifier", bert, start).fit(TEXTS, placeholders, **SETTINGS)
  model = bert_tf.Classifier(init_checkpoint=start, output_dir=unused)
  model.fit(TEXTS, labels * (N // 2), **{**SETTINGS, "output_dir": out})
  answers = model.predict(TEXTS)
  assert [answer["label"] for answer in answers] == labels * (N // 2)
  assert [*answers[0]["probabilities"]] == labels
  assert model.predict([]) == []
  assert checkpoints.list_checkpoints(out)
  assert not (tmp_path / "unused").exists()


def test_labels_may_be_integers_and_arrays(bert, tmp_path):
  model = new("Classifier", bert, tmp_path)
  texts = pd.DataFrame({"text": ["of the", "and the"] * 12})
  labels = pd.Series([3, 11] * 12)
  results = model.fit(texts, labels, (texts, labels.to_numpy()), **SETTINGS)
  assert results["eval_accuracy"] == 1
  for classifier in (model, bert_tf.Classifier(output_dir=str(tmp_path))):
    answers = classifier.predict(texts["text"][:2])
    assert [p["label"] for p in answers] == [3, 11]
    assert {type(p["label"]) for p in answers} == {int}
    assert [list(p["probabilities"]) for p in answers] == [[3, 11]] * 2
  assert model.predict_proba(texts).argmax(axis=1).tolist() == [0, 1] * 12
  assert model.score(list(texts["text"]), [np.int64(3), np.int64(11)] * 12) == 1
  with pytest.raises(ValueError, match="row 0: label 4 .*3, 11"):
    model.score(["of"], [4])


@pytest.mark.parametrize(
  ("kind", "labels"),
  [("multilabel", [[2, 5], [2]]), ("regression", [1.5, -0.5])],
)
def test_labels_of_other_problems_keep_their_type(bert, tmp_path, kind, labels):
  model = new("Classifier", bert, tmp_path, problem_type=kind)
  texts = ["of the", "and the"] * 12
  model.fit(texts, labels * 12, **{**SETTINGS, "num_train_epochs": 40.0})
  model.evaluate(texts, labels * 12)  # Writes run.json again.
  for classifier in (model, bert_tf.Classifier(output_dir=str(tmp_path))):
    predictions = classifier.predict(texts[:2])
    predicted = [prediction["label"] for prediction in predictions]
    if kind == "multilabel":
      assert predicted == labels
    else:
      assert predicted == pytest.approx(labels, abs=0.4)
      assert predictions[0]["probabilities"] == {}


def test_the_best_checkpoint_predicts_and_is_scored(bert, tmp_path):
  texts, labels = ["of the", "and the"] * 12, ["x", "y"] * 12
  model = new("Classifier", bert, tmp_path)
  # With swapped labels the first evaluation is the best.
  swapped = texts[:4], ["y", "x"] * 2
  often = {"eval_every_steps": 10, "best_metric": "eval_loss"}
  results = model.fit(texts, labels, swapped, **often, **SETTINGS)
  best = checkpoints.find_latest(str(tmp_path / "best"))
  assert results["global_step"] == int(best.rpartition("-")[2])
  newest = checkpoints.find_latest(str(tmp_path))
  assert results["global_step"] < int(newest.rpartition("-")[2])
  expected = bert_tf.Predictor(best).predict(texts[:2])
  other = bert_tf.Predictor(newest).predict(texts[:2])
  assert [a["label"] for a in other] == ["x", "y"]
  for classifier in (model, bert_tf.Classifier(output_dir=str(tmp_path))):
    answers = classifier.predict(texts[:2])
    assert answers == expected
    again = classifier.evaluate(*swapped)
    assert again["eval_loss"] == pytest.approx(results["eval_loss"], abs=1e-5)


@pytest.mark.parametrize(
  ("name", "rows", "labels", "expected"),
  [
    ("Classifier", ["of"] * 2, ["a", 1j], "row 1: "),
    ("Classifier", ["of"] * 2, ["a", "\ud83d"], "row 1: "),  # Half a character.
    ("Classifier", TEXTS, ["a"], "24 rows and 1 lab"),
    ("Classifier", "of", "a", "list of rows"),
    ("EntityRecognizer", ["of", "the"], ["O", None], "row 1: "),
    ("EntityRecognizer", [["of", "in"]], [["O"]], "row 0: .*2 words"),
    ("EntityRecognizer", ["of"], [["PER"]], "row 0: 'PER'"),
    ("EntityRecognizer", [["a", "b\xa0c"]], ["O O"], "row 0: .*b.*c"),
    ("EntityRecognizer", [["of", ""]], ["O O"], "row 0: .*empty"),
    ("MultipleChoice", [("of", ["a", "b"])], [2], "row 0: lab"),
    (
      "MultipleChoice",
      [("of", ["a", "b"]), ("of", ["a", "b", "c"])],
      [0, 0],
      "row 1 has 3 choices",
    ),
    ("QuestionAnswerer", [("of", "the")], ["and"], "not in its context: 'and'"),
    ("QuestionAnswerer", [("of", "the")], [None], "`version_2_with_negative`"),
  ],
)
def test_a_mistake_is_named_before_anything_is_written(
  bert, tmp_path, name, rows, labels, expected
):
  with pytest.raises(ValueError, match=expected):
    new(name, bert, tmp_path / "out").fit(rows, labels)
  assert not (tmp_path / "out").exists()


def test_an_unknown_setting_is_named(bert, tmp_path):
  with pytest.raises(TypeError, match="'epochs'.* num_train_epochs"):
    new("Classifier", bert, tmp_path).fit(["a"], ["b"], epochs=1)
  with pytest.raises(TypeError, match="'do_lower_cas'"):
    new("QuestionAnswerer", bert, tmp_path, do_lower_cas=True)


def test_scikit_learn_clones_and_cross_validates(bert, tmp_path):
  model_selection = pytest.importorskip("sklearn.model_selection")
  model = new("Classifier", bert, tmp_path / "run", **SETTINGS)
  folds = model_selection.KFold(2)
  labels = ["x", "y"] * 12
  scores = model_selection.cross_val_score(model, TEXTS, labels, cv=folds)
  assert scores.shape == (2,)
  assert np.isfinite(scores).all()
  assert len([*tmp_path.iterdir()]) == 2
  assert model.set_params(max_seq_length=9).get_params()["max_seq_length"] == 9
