"""Tests that all classes accept rows in the same Python types."""

import dataclasses
import functools

import keras
import numpy as np
import pandas as pd
import pytest

import bert_tf
from bert_tf.model import heads
from tests.support import tiny_models

# Two rows for each class, as tuples of its inputs.
ROWS = {
  "Classifier": [("the of", "and"), ("in", "the")],
  "EntityRecognizer": [("the of",), ("in",)],
  "MultipleChoice": [("the", ["of and", "in"]), ("in", ["to", "was"])],
  "QuestionAnswerer": [("the", "of the and"), ("in", "was in the")],
  "FeatureExtractor": [("the of", "and"), ("in", "the")],
  "Predictor": [("the of", "and"), ("in", "the")],
}
NAMES = {
  "MultipleChoice": ("context", "choices"),
  "QuestionAnswerer": ("question", "context"),
}
HEADS = {
  "Classifier": lambda c: heads.ClassifierModel(c, 3),
  "EntityRecognizer": lambda c: heads.TokenModel(c, 3),
  "MultipleChoice": heads.MultipleChoiceModel,
  "QuestionAnswerer": heads.SpanModel,
}
LENGTHS = {
  "QuestionAnswerer": {
    "max_seq_length": 32,
    "max_query_length": 8,
    "doc_stride": 8,
  }
}
INPUTS = {"FeatureExtractor": "Classifier", "Predictor": "Classifier"}


def make_labels(name):
  values = {
    "Classifier": ("own data", "classification", ["0", "1", "2"]),
    "EntityRecognizer": ("ner", "words", ["O", "B-X", "I-X"]),
  }.get(name)
  return values and dict(zip(("task_name", "problem_type", "labels"), values))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Returns a function from a class name to an untrained model, made once."""

  def make(name):
    kind = INPUTS.get(name, name)
    folder = tmp_path_factory.getbasetemp() / kind
    if not folder.exists():
      keras.utils.set_random_seed(1)
      model = tiny_models.widen(HEADS[kind](tiny_models.CONFIG))
      tiny_models.write_run(folder, model, make_labels(kind))
    path = str(folder / "model.ckpt-1")
    if name == "Predictor":
      return bert_tf.Predictor(path)
    if name == "FeatureExtractor":
      return bert_tf.FeatureExtractor(
        bert_tf.ExtractionConfig(init_checkpoint=path, layers=(-1,))
      )
    return getattr(bert_tf, name)(path, **LENGTHS.get(name, {}))

  return functools.cache(make)


def input_names(name):
  kind = INPUTS.get(name, name)
  return NAMES.get(kind, ("text", "text_b"))[: len(ROWS[name][0])]


def array(rows):
  """Returns an array of objects, even if all rows have the same length."""
  objects = np.empty(len(rows), object)
  objects[:] = rows
  return objects


# Functions that convert tuples, and the names of their items, to other types.
ONE_ROW = {
  "a tuple": lambda row, names: row,
  "a dict": lambda row, names: dict(zip(names, row)),
}
ROWS_AS = {
  "a list of tuples": lambda rows, names: rows,
  "a list of lists": lambda rows, names: [list(row) for row in rows],
  "a list of dicts": lambda rows, names: [dict(zip(names, r)) for r in rows],
  "an iterator": lambda rows, names: iter(rows),
  "a NumPy array": lambda rows, names: array(rows),
  "a pandas Series": lambda rows, names: pd.Series(rows),
  "a pandas DataFrame": lambda rows, names: pd.DataFrame(rows, columns=names),
}


def same(answer, expected):
  """Returns whether two answers are equal, but for rounding."""
  if hasattr(expected, "vectors"):
    return np.allclose(answer.vectors, expected.vectors, atol=1e-5)
  if dataclasses.is_dataclass(expected):
    return same(vars(answer), vars(expected))
  if isinstance(expected, dict):
    return answer.keys() == expected.keys() and all(
      same(answer[key], value) for key, value in expected.items()
    )
  if isinstance(expected, list | tuple):
    return len(answer) == len(expected) and all(map(same, answer, expected))
  if isinstance(expected, float | np.floating):
    return answer == pytest.approx(expected, abs=1e-5)
  return answer == expected


@pytest.fixture(scope="module")
def answers(models):
  """Returns a function from a class name to its answers, computed once."""
  return functools.cache(lambda name: models(name).predict(ROWS[name]))


@pytest.mark.parametrize("form", ROWS_AS)
@pytest.mark.parametrize("name", ROWS)
def test_all_classes_accept_several_rows(models, answers, name, form):
  rows = ROWS_AS[form](ROWS[name], input_names(name))
  predictions = models(name).predict(rows)
  assert isinstance(predictions, list) and len(predictions) == 2
  assert all(map(same, predictions, answers(name)))


@pytest.mark.parametrize("form", ONE_ROW)
@pytest.mark.parametrize("name", ROWS)
def test_all_classes_accept_a_single_row(models, name, form):
  model, row = models(name), ROWS[name][0]
  (expected,) = model.predict([row])
  assert same(model.predict(ONE_ROW[form](row, input_names(name))), expected)


@pytest.mark.parametrize("name", ROWS)
def test_a_text_is_a_row_if_one_text_is_enough(models, name):
  model, text = models(name), ROWS[name][0][0]
  assert model.predict([]) == []
  if name in ("MultipleChoice", "QuestionAnswerer"):
    with pytest.raises(ValueError, match="row 0"):
      model.predict(text)
    return
  (expected,) = model.predict([text])
  assert same(model.predict(text), expected)
  assert same(model.predict(np.array([text]))[0], expected)
