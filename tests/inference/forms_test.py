"""Tests that rows are accepted in all of Python's types."""

import keras
import numpy as np
import pandas as pd
import pytest

import bert_tf
from bert_tf.model import heads
from tests.support import near_ties, tiny_models

# Names of inputs, and two rows of each class.
CLASSES = {
  "FeatureExtractor": (("text", "text_b"), [("the of", "and"), ("in", "the")]),
  "EntityRecognizer": (("text",), [("the of",), ("in",)]),
  "MultipleChoice": (
    ("context", "choices"),
    [("the", ["of and", "in"]), ("in", ["to", "was"])],
  ),
}
TAGS = {"task_name": "ner", "problem_type": "words", "labels": ["O", "B", "I"]}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Returns an untrained model of each class."""
  keras.utils.set_random_seed(1)
  config, folder = tiny_models.CONFIG, tmp_path_factory.mktemp("runs")
  made = {
    "FeatureExtractor": (heads.PretrainingModel(config), None),
    "EntityRecognizer": (heads.TokenModel(config, 3), TAGS),
    "MultipleChoice": (heads.MultipleChoiceModel(config), None),
  }
  for name, (model, labels) in made.items():
    tiny_models.write_run(folder / name, tiny_models.widen(model), labels)
  return {name: getattr(bert_tf, name)(str(folder / name)) for name in made}


@pytest.fixture(scope="module")
def answers(models):
  return {n: models[n].predict(rows) for n, (_, rows) in CLASSES.items()}


def array(rows):
  """Returns an array of objects, even if all rows have the same length."""
  objects = np.empty(len(rows), object)
  objects[:] = rows
  return objects


# Functions that convert tuples, and the names of their items, to other types.
FORMS = {
  "lists": lambda rows, names: [list(row) for row in rows],
  "dicts": lambda rows, names: [dict(zip(names, row)) for row in rows],
  "an iterator": lambda rows, names: iter(rows),
  "a NumPy array": lambda rows, names: array(rows),
  "a pandas Series": lambda rows, names: pd.Series(rows),
  "a pandas DataFrame": lambda rows, names: pd.DataFrame(rows, columns=names),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CLASSES)
def test_all_classes_accept_several_rows(models, answers, name, form):
  names, rows = CLASSES[name]
  found = models[name].predict(FORMS[form](rows, names))
  assert near_ties.close(found, answers[name])


@pytest.mark.parametrize("name", CLASSES)
def test_all_classes_accept_a_single_row(models, answers, name):
  names, (row, _) = CLASSES[name]
  for single in (row, dict(zip(names, row))):
    assert near_ties.close(models[name].predict(single), answers[name][0])
  assert models[name].predict([]) == []
  if name == "MultipleChoice":
    with pytest.raises(ValueError, match="row 0"):
      models[name].predict(row[0])
  else:
    [expected] = models[name].predict([row[0]])
    assert near_ties.close(models[name].predict(row[0]), expected)
