"""Tests for `bert-tf ner`: training, files, scores and mistakes."""

import dataclasses
import json
import pathlib
import random
import shutil
import sys

import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints
from bert_tf.tasks import fine_tuning
from bert_tf.training import curves
from tests.support import ner_files, runs
from tests.support.ner_files import (
  columns,
  conll,
  made_sentences,
  ner_config,
)

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"

data = ner_files.data


@pytest.fixture(scope="module")
def trained(data, run_script):
  """Returns the folder of a run that trained, evaluated and predicted."""
  result = run_script(
    "ner",
    "--bert_config_file=config.json",
    "--vocab_file=vocab.txt",
    "--data_dir=.",
    f"--test_file={data}/test.txt",
    "--output_dir=out",
    "--do_train",
    "--do_eval",
    "--do_predict",
    "--max_seq_length=24",
    "--train_batch_size=16",
    "--learning_rate=3e-3",
    "--num_train_epochs=20",
    "--eval_every_steps=60",
    "--log_every_steps=15",
    "--use_xla=false",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  return data / "out", result.stderr


def test_training_learns_the_entities(trained):
  folder, log = trained
  # int(120 sentences / 16 a batch * 20 epochs), a tenth of them warm-up.
  assert "120 training windows, 150 steps of 16, 15 of them warm-up" in log
  losses = curves.read(str(folder))["loss"]
  assert losses[150] < 0.1 * losses[min(losses)]
  result = runs.results(folder)
  for name in ("f1", "precision", "recall", "PER_f1", "LOC_f1"):
    assert result[name] == 1.0
  assert result["eval_accuracy"] == 1.0
  assert result["eval_loss"] < 0.1
  assert result["global_step"] == 150
  # Means over words and over batches; the last batch is smaller.
  assert result["loss"] == pytest.approx(result["eval_loss"], abs=0.05)
  assert runs.results(folder, "test_results.txt")["f1"] == 1.0


def test_predictions_are_next_to_the_words_and_tags_of_the_file(trained, data):
  folder, _ = trained
  for name, file, seed in (("eval", "dev", 2), ("test", "test", 3)):
    path = folder / f"{name}_predictions.txt"
    gold = [
      [word, tag, tag]
      for words, tags in made_sentences(30, seed)
      for word, tag in zip(words, tags)
    ]
    assert columns(path) == gold
    # Blank lines and document lines are those of the input.
    ours = path.read_text().splitlines()
    theirs = (data / f"{file}.txt").read_text().splitlines()
    starts = [line.startswith("-DOCSTART-") for line in theirs]
    assert [line.startswith("-DOCSTART- O O") for line in ours] == starts
    assert [bool(line) for line in ours] == [bool(line) for line in theirs]


def test_a_run_keeps_its_labels_evaluations_and_trained_state(trained):
  folder, _ = trained
  assert json.loads((folder / "label_map.json").read_text()) == {
    "task_name": "ner",
    "problem_type": "words",
    "labels": ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"],
  }
  history = json.loads((folder / "best" / "evaluations.json").read_text())
  assert history["metric"] == "f1"
  steps = [result["global_step"] for result in history["evaluations"]]
  assert steps == [60, 120, 150]
  shapes = checkpoints.CheckpointReader(str(folder / "model.ckpt-150")).shapes
  assert shapes["output_weights"] == (5, 32)
  assert shapes["output_bias"] == (5,)
  # The pooler does not receive a gradient.
  assert "output_weights/adam_m" in shapes
  assert "bert/pooler/dense/kernel/adam_m" not in shapes


def test_results_include_those_of_the_test_file(trained, data, tmp_path):
  folder, _ = trained
  shutil.copytree(folder, tmp_path / "out")
  result = fine_tuning.run(
    ner_config(data, tmp_path / "out", do_eval=True, do_predict=True)
  )
  assert result["f1"] == result["test_f1"] == result["test_accuracy"] == 1.0
  assert result["global_step"] == 150


def test_scores_and_loss_do_not_depend_on_the_windows(trained, data, tmp_path):
  # The model is not trained, so many tags are wrong.
  train = {"init_checkpoint": str(trained[0] / "model.ckpt-0")}
  text = conll(made_sentences(20, 7) + [(["madonna"] * 50, ["B-PER"] * 50)])
  (tmp_path / "dev.txt").write_text(text)
  result = []
  for size in (1, 7):
    changes = {"dev_file": str(tmp_path / "dev.txt"), "eval_batch_size": size}
    fine_tuning.run(
      ner_config(data, tmp_path / "out", train, do_eval=True, **changes)
    )
    result.append(runs.results(tmp_path / "out"))
  rows = columns(tmp_path / "out" / "eval_predictions.txt")
  assert len(rows) == sum(len(words) for words, _ in made_sentences(20, 7)) + 50
  right = np.mean([gold == predicted for _, gold, predicted in rows])
  assert result[0]["eval_accuracy"] == pytest.approx(right)
  for name in ("eval_accuracy", "eval_loss", "f1"):
    assert result[0][name] == pytest.approx(result[1][name], rel=1e-5)


def context_file(num_documents, seed):
  """Returns two-sentence documents; the first decides the type of a name."""
  rng = random.Random(seed)
  lines = []
  for _ in range(num_documents):
    word, type_ = rng.choice([("the", "PER"), ("of", "LOC")])
    lines += ["-DOCSTART- O", "", f"{word} O", f"{rng.choice('abc')} O", ""]
    lines += [f"{rng.choice('abc')} O", f"his I-{type_}", ""]
  return "\n".join(lines)


def test_document_context_resolves_ambiguous_names(data, tmp_path):
  for name, seed in (("train", 1), ("dev", 2)):
    (tmp_path / f"{name}.txt").write_text(context_file(80, seed))
  changes = {"do_train": True, "do_eval": True, "num_train_epochs": 24.0}
  result = {}
  for context in (False, True):
    config = ner_config(
      data,
      tmp_path / f"out_{context}",
      train={"learning_rate": 5e-3},
      document_context=context,
      max_seq_length=8,
      **changes,
    )
    result[context] = fine_tuning.run(
      dataclasses.replace(config, data_dir=str(tmp_path))
    )
  # Without context, the best guess is the more frequent type.
  assert result[False]["f1"] < 0.7
  assert result[True]["f1"] == 1.0


def test_a_missing_seqeval_is_reported_before_training(
  data, tmp_path, monkeypatch
):
  monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
  config = ner_config(data, tmp_path / "out", do_train=True, do_eval=True)
  with pytest.raises(ImportError, match="seqeval"):
    fine_tuning.run(config)
  assert not (tmp_path / "out").exists()
