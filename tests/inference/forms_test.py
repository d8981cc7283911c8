"""Tests that all classes accept rows in the same Python types."""

import functools

import keras
import numpy as np
import pandas as pd
import pytest

import bert_tf
from bert_tf.model import heads
from tests.support import tiny_models

# Names of inputs, two rows, and the head and labels of each class's model.
CLASSES = {
  "Predictor": (
    ("text", "text_b"),
    [("the of", "and"), ("in", "the")],
    lambda c: heads.ClassifierModel(c, 3),
    ("own data", "classification", ["0", "1", "2"]),
  ),
  "FeatureExtractor": (
    ("text", "text_b"),
    [("the of", "and"), ("in", "the")],
    heads.PretrainingModel,
    None,
  ),
  "EntityRecognizer": (
    ("text",),
    [("the of",), ("in",)],
    lambda c: heads.TokenModel(c, 3),
    ("ner", "words", ["O", "B-X", "I-X"]),
  ),
  "MultipleChoice": (
    ("context", "choices"),
    [("the", ["of and", "in"]), ("in", ["to", "was"])],
    heads.MultipleChoiceModel,
    None,
  ),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Returns a function from a class name to an untrained model, made once."""

  def make(name):
    _, _, head, labels = CLASSES[name]
    keras.utils.set_random_seed(1)
    model = tiny_models.widen(head(tiny_models.CONFIG))
    fields = ("task_name", "problem_type", "labels")
    folder = tiny_models.write_run(
      tmp_path_factory.mktemp(name), model, labels and dict(zip(fields, labels))
    )
    return getattr(bert_tf, name)(str(folder))

  return functools.cache(make)


@pytest.fixture(scope="module")
def answers(models):
  """Returns a function from a class name to its answers, computed once."""
  return functools.cache(lambda name: models(name).predict(CLASSES[name][1]))


def array(rows):
  """Returns an array of objects, even if all rows have the same length."""
  objects = np.empty(len(rows), object)
  objects[:] = rows
  return objects


# Functions that convert tuples, and the names of their items, to other types.
FORMS = {
  "tuples": lambda rows, names: rows,
  "lists": lambda rows, names: [list(row) for row in rows],
  "dicts": lambda rows, names: [dict(zip(names, row)) for row in rows],
  "an iterator": lambda rows, names: iter(rows),
  "a NumPy array": lambda rows, names: array(rows),
  "a pandas Series": lambda rows, names: pd.Series(rows),
  "a pandas DataFrame": lambda rows, names: pd.DataFrame(rows, columns=names),
}


def same(answer, expected):
  """Returns whether two answers are equal, but for rounding."""
  if hasattr(expected, "vectors"):
    return np.allclose(answer.vectors, expected.vectors, atol=1e-5)
  if isinstance(expected, dict):
    return all(same(answer[key], value) for key, value in expected.items())
  if isinstance(expected, list):
    return len(answer) == len(expected) and all(map(same, answer, expected))
  if isinstance(expected, float):
    return answer == pytest.approx(expected, abs=1e-5)
  return answer == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CLASSES)
def test_all_classes_accept_several_rows(models, answers, name, form):
  names, rows, *_ = CLASSES[name]
  assert same(models(name).predict(FORMS[form](rows, names)), answers(name))


@pytest.mark.parametrize("name", CLASSES)
def test_all_classes_accept_a_single_row(models, answers, name):
  names, rows, *_ = CLASSES[name]
  model = models(name)
  for row in (rows[0], dict(zip(names, rows[0]))):
    assert same(model.predict(row), answers(name)[0])
  text = rows[0][0]
  assert model.predict([]) == []
  if name == "MultipleChoice":
    with pytest.raises(ValueError, match="row 0"):
      model.predict(text)
  else:
    [expected] = model.predict([text])
    assert same(model.predict(text), expected)
    assert same(model.predict(np.array([text]))[0], expected)
