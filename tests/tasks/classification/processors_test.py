"""Tasks that are a class with the interface of the original's DataProcessor."""

import json
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import processors, sources
from tests.support import own_classification, runs

base = own_classification.base

# A user's module; only its first line is adapted.
MODULE = """
from bert_tf import DataProcessor, InputExample

class Reviews(DataProcessor):
  def get_train_examples(self, data_dir):
    return self._examples(data_dir, "train")

  def get_dev_examples(self, data_dir):
    return self._examples(data_dir, "dev")

  def get_test_examples(self, data_dir):
    return self._examples(data_dir, "test")

  def get_labels(self):
    return ["good", "bad"]

  def _examples(self, data_dir, split):
    lines = self._read_tsv(f"{data_dir}/{split}.tsv")[1:]
    return [
      InputExample(guid=f"{split}-{i}", text_a=line[0],
                   label="?" if split == "test" else line[1])
      for i, line in enumerate(lines)
    ]

class Labels(Reviews):
  def get_labels(self):
    return ["good", "good"]

class Unknown(Reviews):
  def get_labels(self):
    return ["good", "so-so"]

class Unfinished(DataProcessor):
  pass

class Empty(Reviews):
  def _examples(self, data_dir, split):
    return []
"""


@pytest.fixture
def make(base, tmp_path, monkeypatch):
  """Returns a function that makes the config of a processor's run."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", list(sys.path))
  monkeypatch.delitem(sys.modules, "reviews", raising=False)
  (tmp_path / "reviews.py").write_text(MODULE)
  steps = {"do_train": True, "do_eval": True, "do_predict": True}
  return lambda processor: own_classification.make(
    base, tmp_path / "out", task_name=None, processor=processor, **steps
  )


def test_a_processor_is_a_task_like_the_built_in_ones(make, tmp_path):
  results = fine_tuning.run(make("reviews:Reviews"))
  assert set(results) == {"eval_accuracy", "eval_loss", "global_step", "loss"}
  saved = json.loads((tmp_path / "out" / "run.json").read_text())
  assert saved["labels"] == {
    "task_name": "Reviews",
    "problem_type": "classification",
    "labels": ["good", "bad"],
  }
  assert saved["settings"]["is_pair"] is False
  assert np.loadtxt(tmp_path / "out" / "test_results.tsv").shape == (5, 2)
  text = (tmp_path / "out" / "predictions.jsonl").read_text()
  lines = [json.loads(line) for line in text.splitlines()]
  assert [line["id"] for line in lines] == [f"test-{i}" for i in range(5)]
  # The labels of 2018's test examples mean nothing.
  assert "true_label" not in lines[0]


def test_labels_may_be_numbers_and_a_second_text_empty(make, monkeypatch):
  class Numbers(bert_tf.DataProcessor):
    def get_dev_examples(self, data_dir):
      return [bert_tf.InputExample("d", "a", "", 1)]

    def get_labels(self):
      return [0, 1]

  monkeypatch.setattr(processors, "load_processor", lambda name: Numbers())
  source = sources.processor_source(make("a:Numbers"))
  assert source.labels == ("0", "1")
  assert source.read("dev", None) == [{"id": "d", "text": "a", "label": "1"}]


@pytest.mark.parametrize(
  ("processor", "expected"),
  [
    ("reviews", "MODULE:CLASS"),
    ("no_such_module:Reviews", "No module named 'no_such_module'"),
    ("reviews:Review", "no attribute 'Review'"),
    ("reviews:Labels", "('good', 'good')"),
    ("reviews:Unknown", "train-1: label 'bad'"),
    ("reviews:Empty", "no example"),
    ("reviews:Unfinished", "Unfinished has no get_labels"),
  ],
)
def test_a_bad_processor_is_named(make, processor, expected):
  runs.assert_refused(fine_tuning.run, make(processor), expected)


def test_tsv_files_are_read_with_and_without_quotes(tmp_path):
  path = tmp_path / "quoted.tsv"
  path.write_text('"a\tb"\tc\n"d"\n', encoding="utf-8")
  read = bert_tf.DataProcessor._read_tsv
  assert read(str(path)) == [['"a', 'b"', "c"], ['"d"']]
  assert read(str(path), quotechar='"') == [["a\tb", "c"], ["d"]]
