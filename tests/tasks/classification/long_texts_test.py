"""Texts that do not fit: their ends, their windows, the mean of the logits."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bert_tf
from bert_tf.checkpoint import checkpoints
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.tasks import fine_tuning
from bert_tf.tasks.classification.task import cut_windows
from tests.support import own_classification, runs

base = own_classification.base
WORDS = "of and the in a to is was for on".split()
ROOM = 6


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 100), st.integers(1, 20))
def test_windows_are_full_and_cover_the_text_in_order(length, room):
  ids = list(range(length))
  assert cut_windows(ids, room, "truncate") == [ids[:room]]
  windows = cut_windows(ids, room, "windows")
  if length <= room:
    assert windows == [ids]
    return
  starts = [window[0] for window in windows]
  assert windows == [ids[start : start + room] for start in starts]
  assert (starts[0], starts[-1]) == (0, length - room)
  steps = np.diff(starts)
  # Each window starts half a window later; the last step may be shorter.
  assert set(steps[:-1]) <= {max(1, room // 2)}
  assert 0 < steps[-1] <= max(1, room // 2)


def cut_into_texts(words):
  """Returns the texts of the windows of a text of one-piece words."""
  return [" ".join(window) for window in cut_windows(words, ROOM, "windows")]


@pytest.fixture(scope="module")
def run_on_windows(base, tmp_path_factory):
  """The folder of a run that trained and predicted long texts in windows."""
  folder = tmp_path_factory.mktemp("long")
  rng = np.random.default_rng(1)
  texts = [list(rng.choice(WORDS, n)) for n in (4, 7, 14, 25, 6, 9, 40, 11)]
  labels = ["good", "bad"] * 4
  rows = [(" ".join(words), label) for words, label in zip(texts, labels)]
  for name in ("train.tsv", "dev.tsv"):
    own_classification.write_tsv(folder / name, rows)
  own_classification.write_tsv(
    folder / "test.tsv", [(text,) for text, _ in rows], "text"
  )
  config = own_classification.make(
    base,
    folder / "out",
    train={"train_batch_size": 4},
    data_dir=str(folder),
    max_seq_length=ROOM + 2,
    long_text="windows",
    do_train=True,
    do_eval=True,
    do_predict=True,
    num_train_epochs=2.0,
  )
  fine_tuning.run(config)
  return folder, config, texts, labels


def test_training_sees_every_window_with_the_label(run_on_windows):
  folder, _, texts, _ = run_on_windows
  count = sum(len(cut_into_texts(words)) for words in texts)
  assert count > 30
  assert (folder / "out" / f"model.ckpt-{count * 2 // 4}.index").exists()


def test_a_long_text_is_classified_by_the_mean_of_its_windows(
  base, run_on_windows
):
  folder, config, texts, labels = run_on_windows
  # The same weights predict each window as an example.
  (folder / "windows").mkdir()
  windows = [cut_into_texts(words) for words in texts]
  rows = [(text,) for group in windows for text in group]
  own_classification.write_tsv(folder / "windows" / "test.tsv", rows, "text")
  alone = dataclasses.replace(
    config,
    data_dir=str(folder / "windows"),
    long_text="truncate",
    do_train=False,
    do_eval=False,
    train=dataclasses.replace(
      config.train,
      output_dir=str(folder / "alone"),
      init_checkpoint=checkpoints.find_latest(str(folder / "out")),
    ),
  )
  fine_tuning.run(alone)
  logs = np.log(np.loadtxt(folder / "alone" / "test_results.tsv"))
  ends = np.cumsum([len(group) for group in windows])[:-1]
  means = np.array([part.mean(axis=0) for part in np.split(logs, ends)])
  expected = np.exp(means) / np.exp(means).sum(axis=1, keepdims=True)
  probabilities = np.loadtxt(folder / "out" / "test_results.tsv")
  assert probabilities.shape == (8, 2)
  np.testing.assert_allclose(probabilities, expected, rtol=1e-4)
  lines = (folder / "out" / "predictions.jsonl").read_text().splitlines()
  assert [json.loads(x)["text"] for x in lines] == [" ".join(t) for t in texts]
  # The evaluation counts texts, not windows.
  right = np.array([["bad", "good"].index(label) for label in labels])
  results = runs.results(folder / "out")
  accuracy = np.mean(expected.argmax(axis=1) == right)
  assert results["eval_accuracy"] == pytest.approx(accuracy)
  assert results["eval_loss"] == pytest.approx(
    -np.log(expected[np.arange(8), right]).mean(), rel=1e-4
  )


def test_pairs_are_refused(base, tmp_path):
  own_classification.write_tsv(
    tmp_path / "train.tsv", [("a", "b", "x"), ("a", "c", "y")], "text\tb\tlabel"
  )
  config = own_classification.make(
    base,
    tmp_path / "out",
    data_dir=str(tmp_path),
    text_b_column="b",
    long_text="windows",
    do_train=True,
  )
  with pytest.raises(ValueError, match="'windows' is for single texts, but"):
    fine_tuning.run(config)


def test_python_reads_long_texts_as_the_run_and_an_export_warns(
  run_on_windows, tmp_path, caplog
):
  folder, _, texts, _ = run_on_windows
  model, exported = folder / "out", tmp_path / "exported" / "1"
  expected = np.loadtxt(model / "test_results.tsv")
  with caplog.at_level("WARNING"):
    export.run(
      ExportConfig(export_dir=str(exported), init_checkpoint=str(model))
    )
  assert "long_text=windows" in caplog.text
  rows = [" ".join(words) for words in texts]
  for source in (model, exported):
    predictor = bert_tf.Predictor(str(source), max_batch_size=3)
    probabilities = [
      list(answer["probabilities"].values())
      for answer in predictor.predict(rows)
    ]
    np.testing.assert_allclose(probabilities, expected, rtol=1e-4)
