"""Fine-tuning and classifying from Python, on lists."""

import datetime
import decimal
import enum
import json
import pathlib
import shutil

import numpy as np
import pandas as pd
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
HOW = {
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
  model.fit(TEXTS, LABELS, **HOW)
  return model


def test_what_is_fitted_is_predicted(fitted):
  found = fitted.predict(TEXTS)
  assert [p.label for p in found] == LABELS
  for prediction in found:
    assert list(prediction.probabilities) == ["bad", "good"]
    assert sum(prediction.probabilities.values()) == pytest.approx(1)
    assert prediction.probabilities[prediction.label] > 0.5
  assert fitted.predict([]) == []


def test_a_text_is_predicted_the_same_alone_and_among_others(fitted):
  together = fitted.predict(TEXTS)
  for text, expected in zip(TEXTS[:3], together):
    (alone,) = fitted.predict([text])
    # Other widths, other rounding.
    assert alone.probabilities == pytest.approx(
      expected.probabilities, abs=1e-5
    )


def test_the_model_is_loaded_once(folder, fitted, monkeypatch):
  loads = []
  load_variables = checkpoints.load_variables

  def counted(*arguments, **kwargs):
    loads.append(1)
    return load_variables(*arguments, **kwargs)

  monkeypatch.setattr(checkpoints, "load_variables", counted)
  model = make(folder, folder / "out")
  first = model.predict(TEXTS[:5])
  assert model.predict(TEXTS[:5]) == first
  assert len(loads) == 1
  assert [p.label for p in first] == LABELS[:5]


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
  # And what it trained can be predicted with.
  (found,) = make(folder, tmp_path / "out").predict([TEXTS[0]])
  assert found == fitted.predict([TEXTS[0]])[0]


def test_pairs_are_told_apart_by_their_second_text(folder, tmp_path):
  pairs = [(a, b) for a in WORDS for b in ("of", "and")] * 6
  labels = ["yes" if b == "of" else "no" for _, b in pairs]
  model = make(folder, tmp_path)
  model.fit(pairs, labels, **HOW)
  assert [p.label for p in model.predict(pairs)] == labels


def test_a_regression_predicts_numbers(folder, tmp_path):
  model = make(folder, tmp_path)
  numbers = [1.5 if label == "good" else -0.5 for label in LABELS]
  how = {**HOW, "num_train_epochs": 30.0}
  model.fit(TEXTS, numbers, problem_type="regression", **how)
  found = model.predict(TEXTS[:4])
  assert [p.label for p in found] == pytest.approx(numbers[:4], abs=0.4)
  assert found[0].probabilities == {}


def test_several_labels_apply(folder, tmp_path):
  model = make(folder, tmp_path)
  labels = [("x",) if label == "good" else ("x", "y") for label in LABELS]
  model.fit(TEXTS, labels, problem_type="multilabel", **HOW)
  found = model.predict(TEXTS[:4])
  assert [p.label for p in found] == [list(names) for names in labels[:4]]


def test_columns_of_a_data_frame_name_the_labels_that_apply(folder, tmp_path):
  model = make(folder, tmp_path)
  labels = pd.DataFrame(
    {"x": [1] * len(LABELS), "y": [label == "bad" for label in LABELS]}
  )
  model.fit(TEXTS, labels, problem_type="multilabel", **HOW)
  found = model.predict(TEXTS[:2])
  assert [p.label for p in found] == [["x"], ["x", "y"]]


FLAGS = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
NO_LABEL = {
  "None": None,
  "NaN": float("nan"),
  "NumPy's NaN": np.float32("nan"),
  "NumPy's NaT": np.datetime64("NaT"),
  "NA": pd.NA,
  "NaT": pd.NaT,
  "Decimal": decimal.Decimal("NaN"),
}


@pytest.mark.parametrize("problem_type", ["classification", "regression"])
@pytest.mark.parametrize("missing", NO_LABEL)
def test_a_row_without_a_label_is_named(
  folder, tmp_path, missing, problem_type
):
  labels = [0, 1, 1, NO_LABEL[missing]]
  with pytest.raises(ValueError, match="row 3 has no label"):
    make(folder, tmp_path / "out").fit(
      ["of"] * 4, labels, problem_type=problem_type
    )


def test_a_column_with_na_names_the_row(folder, tmp_path):
  labels = pd.Series([0, 1, 1, pd.NA], dtype="Int64")
  with pytest.raises(ValueError, match="row 3 has no label"):
    make(folder, tmp_path / "out").fit(["of"] * 4, labels)


class Color(enum.Enum):
  RED = 1


@pytest.mark.parametrize(
  "label",
  [
    Color.RED,
    datetime.date(2024, 1, 2),
    pd.Timestamp("2024-01-02"),
    np.datetime64("2024-01-02", "ns"),
    b"red",
    1j,
  ],
)
def test_a_label_of_an_odd_type_is_named_with_its_row(folder, tmp_path, label):
  kind = type(label).__name__
  for labels, problem_type in (
    (["a", label], "classification"),
    ([["a"], ["b", label]], "multilabel"),
    (np.array(["a", label], object), "classification"),
  ):
    with pytest.raises(ValueError, match=f"row 1: .*{kind}"):
      make(folder, tmp_path / "out").fit(
        ["of"] * 2, labels, problem_type=problem_type
      )
  with pytest.raises(ValueError, match="row 1: "):
    make(folder, tmp_path / "out").fit(
      ["of"] * 2, [1.0, label], problem_type="regression"
    )


def test_numbers_of_a_data_base_are_numbers(folder, tmp_path):
  model = make(folder, tmp_path)
  labels = [decimal.Decimal(int(label == "good")) for label in LABELS]
  model.fit(TEXTS, labels, **{**HOW, "num_train_epochs": 1.0})
  assert set(model.predict(TEXTS[0]).probabilities) == {0, 1}


MISTAKES = {
  "an array of flags": (
    lambda m: m.fit(["of"] * 4, FLAGS, problem_type="multilabel"),
    "DataFrame",
  ),
  "lists of two flags": (
    lambda m: m.fit(
      ["of"] * 4, [[1, 0], [0, 1]] * 2, problem_type="multilabel"
    ),
    "multi-hot",
  ),
  "lists of flags": (
    lambda m: m.fit(["of"] * 2, [[1, 0, 0]] * 2, problem_type="multilabel"),
    "row 0: label [1, 0, 0] is multi-hot",
  ),
  "half a character": (
    lambda m: m.fit(["of"] * 2, ["a", "\ud83d"]),
    "row 1: ",
  ),
  "more texts than labels": (
    lambda m: m.fit(TEXTS, LABELS[:-1]),
    "44 rows and 43 labels; give a label for each",
  ),
  "an empty text": (
    lambda m: m.fit(["of", " "], ["a", "b"]),
    "text of row 1 is empty: ' '",
  ),
  "three texts": (
    lambda m: m.fit([("of", "a", "in")], ["a"]),
    "row 0 is no text and text_b",
  ),
  "no label": (
    lambda m: m.fit(["of", "in"], ["a", float("nan")]),
    "row 1 has no label",
  ),
  "a number that is text": (
    lambda m: m.fit(["of"], ["one"], problem_type="regression"),
    "row 0: label 'one'",
  ),
  "one text": (lambda m: m.fit("of", "a"), "give a list of rows"),
  "one label": (
    lambda m: m.fit(["of", "in"], ["a", "a"]),
    "all labels are 'a'; at least 2 are needed",
  ),
  "nothing fitted": (
    lambda m: m.predict(["of"]),
    "holds no trained model; call `fit` first",
  ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_said_clearly(folder, tmp_path, mistake):
  act, expected = MISTAKES[mistake]
  with pytest.raises(ValueError) as error:
    act(make(folder, tmp_path / "out"))
  assert expected in str(error.value)
  assert not (tmp_path / "out").exists()


def test_a_second_fit_needs_another_folder(fitted):
  with pytest.raises(ValueError, match="holds a run already; predict with it"):
    fitted.fit(TEXTS, LABELS)


def test_fit_starts_from_the_checkpoint_that_it_is_given(
  folder, fitted, tmp_path
):
  still = {**HOW, "num_train_epochs": 1.0, "learning_rate": 1e-9}
  other = make(folder, tmp_path / "other")
  other.fit(TEXTS, LABELS, **still)
  model = make(
    folder, tmp_path / "out", init_checkpoint=str(tmp_path / "other")
  )
  model.fit(TEXTS, LABELS, init_checkpoint=str(folder / "out"), **still)
  name = "bert/encoder/layer_0/output/dense/kernel"
  start, found, unused = (
    checkpoints.CheckpointReader(str(path)).get(name)
    for path in (folder / "out", tmp_path / "out", tmp_path / "other")
  )
  # Five steps of at most 1e-9 each.
  np.testing.assert_allclose(found, start, atol=1e-7)
  assert np.abs(found - unused).max() > 1e-3


def test_what_predicts_was_fitted_not_what_it_started_from(
  folder, fitted, tmp_path
):
  model = make(folder, tmp_path / "unused")
  others = ["bad" if label == "good" else "good" for label in LABELS]
  how = {**HOW, "num_train_epochs": 24.0}
  model.fit(
    TEXTS,
    others,
    init_checkpoint=str(folder / "out"),
    output_dir=str(tmp_path / "out"),
    **how,
  )
  assert [p.label for p in model.predict(TEXTS)] == others
  assert model.score(TEXTS, others) == 1
  assert checkpoints.listed(str(tmp_path / "out"))
  assert not (tmp_path / "unused").exists()
  with pytest.raises(ValueError, match="out holds a run already"):
    model.fit(TEXTS, LABELS)


def test_a_config_that_does_not_fit_is_refused_at_once(folder):
  with pytest.raises(ValueError, match="max_seq_length 33 exceeds"):
    make(folder, folder / "none", max_seq_length=33)
