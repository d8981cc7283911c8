"""Tasks that are a class with the interface of the original's DataProcessor."""

import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification import processors, sources
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.training.config import FineTuningTrainConfig
from tests.support import runs

VOCAB = pathlib.Path(__file__).resolve().parents[2] / "golden/tiny/vocab.txt"


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

class Empty(Reviews):
  def _examples(self, data_dir, split):
    return []
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder, with the module and the files that it reads."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", list(sys.path))
  monkeypatch.delitem(sys.modules, "reviews", raising=False)
  (tmp_path / "reviews.py").write_text(MODULE)
  texts = {"of a of": "good", "and and": "bad", "the": "good", 'in "in': "bad"}
  for split in ("train", "dev", "test"):
    lines = ["text\tlabel", *("\t".join(item) for item in texts.items())]
    (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
  (tmp_path / "config.json").write_text(json.dumps(runs.CONFIG))
  shutil.copy(VOCAB, tmp_path / "vocab.txt")
  return tmp_path


def make(output_dir, **changes):
  return ClassificationConfig(
    **{
      "data_dir": ".",
      "bert_config_file": "config.json",
      "vocab_file": "vocab.txt",
      "max_seq_length": 16,
      "do_train": True,
      "do_eval": True,
      "do_predict": True,
      "num_train_epochs": 2,
      "train": FineTuningTrainConfig(
        output_dir=output_dir, train_batch_size=4, use_xla=False
      ),
      **changes,
    }
  )


def test_a_processor_is_a_task_like_the_built_in_ones(folder):
  results = fine_tuning.run(make("own", processor="reviews:Reviews"))
  assert set(results) == {"eval_accuracy", "eval_loss", "global_step", "loss"}
  assert results["global_step"] == 2
  saved = json.loads(pathlib.Path("own/run.json").read_text())
  assert saved["labels"] == {
    "task_name": "Reviews",
    "problem_type": "classification",
    "labels": ["good", "bad"],
  }
  assert saved["settings"]["is_pair"] is False
  assert np.loadtxt("own/test_results.tsv").shape == (4, 2)
  lines = pathlib.Path("own/predictions.jsonl").read_text().splitlines()
  assert [json.loads(line)["id"] for line in lines] == [
    f"test-{i}" for i in range(4)
  ]
  assert json.loads(lines[3])["text"] == 'in "in'
  assert "true_label" not in lines[0]


def test_pairs_and_single_texts_are_distinguished(folder):
  module = (folder / "reviews.py").read_text()
  text = "text_a=line[0],"
  assert text in module
  (folder / "reviews.py").write_text(
    module.replace(text, f"{text} text_b='a',")
  )
  fine_tuning.run(make("own", processor="reviews:Reviews"))
  saved = json.loads(pathlib.Path("own/run.json").read_text())
  assert saved["settings"]["is_pair"]
  config = make("long", processor="reviews:Reviews", long_text="windows")
  runs.assert_refused(fine_tuning.run, config, "long_text")


def test_labels_may_be_numbers_and_a_second_text_empty(monkeypatch):
  class Numbers(bert_tf.DataProcessor):
    def get_dev_examples(self, data_dir):
      return [bert_tf.InputExample("d", "a", "", 1)]

    def get_labels(self):
      return [0, 1]

  monkeypatch.setattr(processors, "load_processor", lambda name: Numbers())
  source = sources.processor_source(make("", processor="a:Numbers"))
  assert source.labels == ("0", "1")
  rows = source.read("dev", None)
  assert rows == [{"id": "d", "text": "a", "label": "1"}]


@pytest.mark.parametrize(
  ("processor", "words"),
  [
    ("reviews", "MODULE:CLASS"),
    ("no_such_module:Reviews", "No module named 'no_such_module'"),
    ("reviews:Review", "no attribute 'Review'"),
    ("reviews:Labels", r"\('good', 'good'\)"),
    ("reviews:Unknown", "train-1: label 'bad'"),
    ("reviews:Empty", "no example"),
  ],
)
def test_a_bad_processor_is_named(folder, processor, words):
  with pytest.raises(ValueError, match=words):
    fine_tuning.run(make("out", processor=processor))
  assert not os.path.exists("out")


def test_tsv_files_are_read_with_and_without_quotes(folder):
  pathlib.Path("quoted.tsv").write_text('"a\tb"\tc\n"d"\n', encoding="utf-8")
  read = processors.DataProcessor._read_tsv
  assert read("quoted.tsv") == [['"a', 'b"', "c"], ['"d"']]
  assert read("quoted.tsv", quotechar='"') == [["a\tb", "c"], ["d"]]
