"""Rows in all forms that Python has for them, the same for every class."""

import pathlib

import keras
import numpy as np
import pandas as pd
import pytest

import bert_tf
from bert_tf import heads
from tests.support import tiny_models

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"

# Of each class two rows, as tuples of its inputs.
ROWS = {
  "Classifier": [("the of", "and"), ("in", "the")],
  "EntityRecognizer": [("the of",), ("in",)],
  "MultipleChoice": [("the", ["of and", "in"]), ("in", ["to", "was"])],
  "QuestionAnswerer": [("the", "of the and"), ("in", "was in the")],
  "MaskFiller": [("the [MASK]",), ("[MASK] of the",)],
  "FeatureExtractor": [("the of", "and"), ("in", "the")],
  "Predictor": [("the of", "and"), ("in", "the")],
}
HEADS = {
  "Classifier": lambda c: heads.ClassifierModel(c, 3),
  "EntityRecognizer": lambda c: heads.TokenModel(c, 3),
  "MultipleChoice": heads.MultipleChoiceModel,
  "QuestionAnswerer": heads.SpanModel,
  "MaskFiller": heads.PretrainingModel,
}
LENGTHS = {
  "QuestionAnswerer": {
    "max_seq_length": 32,
    "max_query_length": 8,
    "doc_stride": 8,
  }
}
INPUTS = {"FeatureExtractor": "Classifier", "Predictor": "Classifier"}


def labels_of(name):
  found = {
    "Classifier": ("own data", "classification", ["0", "1", "2"]),
    "EntityRecognizer": ("ner", "words", ["O", "B-X", "I-X"]),
  }.get(name)
  return found and dict(zip(("task_name", "problem_type", "labels"), found))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """A function from the name of a class to an untrained model of it."""
  made = {}

  def make(name):
    kind = INPUTS.get(name, name)
    folder = tmp_path_factory.getbasetemp() / kind
    if not folder.exists():
      keras.utils.set_random_seed(1)
      model = tiny_models.widen(HEADS[kind](tiny_models.CONFIG))
      tiny_models.write_run(folder, model, labels_of(kind))
    path = str(folder / "model.ckpt-1")
    if name == "Predictor":
      return bert_tf.Predictor(path)
    if name == "FeatureExtractor":
      return bert_tf.FeatureExtractor(
        bert_tf.ExtractionConfig(init_checkpoint=path, layers=(-1,))
      )
    return getattr(bert_tf, name)(init_checkpoint=path, **LENGTHS.get(name, {}))

  def once(name):
    if name not in made:
      made[name] = make(name)
    return made[name]

  return once


def names_of(name):
  kind = INPUTS.get(name, name)
  return getattr(bert_tf, kind).inputs


def array(rows):
  """An array of objects, whatever the lengths of the rows."""
  found = np.empty(len(rows), object)
  found[:] = rows
  return found


# Each form of one row, and of several, of tuples and the names of their parts.
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


def same(found, expected):
  """Whether two answers are equal; those of features hold arrays."""
  if hasattr(expected, "vectors"):
    return np.allclose(found.vectors, expected.vectors, atol=1e-5)
  return found == expected


@pytest.fixture(scope="module")
def answers(models):
  """A function from the name of a class to its answers, computed once."""
  found = {}

  def once(name):
    if name not in found:
      found[name] = models(name).predict(ROWS[name])
    return found[name]

  return once


@pytest.mark.parametrize("form", ROWS_AS)
@pytest.mark.parametrize("name", ROWS)
def test_all_classes_take_several_rows_alike(models, answers, name, form):
  given = ROWS_AS[form](ROWS[name], names_of(name))
  found = models(name).predict(given)
  assert isinstance(found, list) and len(found) == 2
  assert all(map(same, found, answers(name)))


@pytest.mark.parametrize("form", ONE_ROW)
@pytest.mark.parametrize("name", ROWS)
def test_all_classes_take_one_row_alike(models, name, form):
  model, row = models(name), ROWS[name][0]
  (alone,) = model.predict([row])
  assert same(model.predict(ONE_ROW[form](row, names_of(name))), alone)


@pytest.mark.parametrize("name", ROWS)
def test_a_text_is_a_row_where_one_is_enough(models, name):
  model, text = models(name), ROWS[name][0][0]
  assert model.predict([]) == []
  if name in ("MultipleChoice", "QuestionAnswerer"):
    with pytest.raises(ValueError, match="row 0"):
      model.predict(text)
    return
  (alone,) = model.predict([text])
  assert same(model.predict(text), alone)
  assert same(model.predict(np.array([text]))[0], alone)


def test_the_documented_table_is_what_is_tested():
  lines = (DOCS / "prediction.md").read_text().splitlines()
  first = next(i for i, line in enumerate(lines) if "`predict` takes" in line)
  last = lines.index("", first)
  table = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in lines[first:last]
  ]
  assert table[0][1:] == [f"`{name}`" for name in ROWS]
  expected = {form: ["yes"] * len(ROWS) for form in (*ONE_ROW, *ROWS_AS)}
  assert {row[0]: row[1:] for row in table[2:]} == expected


@pytest.mark.parametrize("name", [n for n in ROWS if n in HEADS])
def test_probabilities_are_those_of_the_answers(models, name):
  model, rows = models(name), ROWS[name]
  found = model.predict_proba(rows)
  assert len(found) == 2
  for one, row in zip(found, rows):
    assert isinstance(one, np.ndarray) and one.dtype == np.float64
    assert ((one > 0) & (one <= 1)).all()
    np.testing.assert_allclose(model.predict_proba(row), one, atol=1e-5)


@pytest.mark.parametrize("name", ROWS)
def test_what_is_no_row_is_named(models, name):
  for odd in (3, b"the", [3], [None], [{"texts": "the"}], [()]):
    with pytest.raises(ValueError, match="row 0|a list of them"):
      models(name).predict(odd)
