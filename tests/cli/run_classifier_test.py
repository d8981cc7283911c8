"""Tests for run_classifier.py as a user runs it."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints
from bert_tf.training import curves
from tests.support import near_ties, runs

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CONFIG = {**runs.CONFIG, "hidden_size": 32, "intermediate_size": 64}


@pytest.fixture(scope="module")
def recorded_run(shared, tmp_path_factory, run_script):
  """Returns the folder of a recorded run of the original."""
  folder = tmp_path_factory.mktemp("mnli")
  result = run_script(
    "run_classifier.py",
    "--task_name=MNLI",
    "--do_eval=true",
    "--do_predict=true",
    f"--data_dir={shared}/golden/classifier/data/MNLI",
    f"--vocab_file={GOLDEN}/tiny/vocab.txt",
    f"--bert_config_file={GOLDEN}/tiny_classifier/bert_config.json",
    f"--init_checkpoint={GOLDEN}/tiny_classifier/bert_model.ckpt",
    "--max_seq_length=64",
    "--output_dir=out",
    cwd=folder,
  )
  assert result.returncode == 0, result.stderr
  return folder / "out"


def test_evaluation_of_a_recorded_run_is_the_originals(shared, recorded_run):
  recorded = runs.results(shared / "golden/e2e/mnli")
  ours = runs.results(recorded_run)
  assert list(ours) == list(recorded)
  for name, value in recorded.items():
    assert ours[name] == pytest.approx(value, abs=1e-5), name
  # glue_test.py compares the records; only a training keeps its own.
  assert not list(recorded_run.glob("*.tf_record"))


def test_predictions_of_a_recorded_run_are_the_originals(shared, recorded_run):
  recorded = np.loadtxt(shared / "golden/e2e/mnli/test_results.tsv")
  ours = np.loadtxt(recorded_run / "test_results.tsv")
  assert recorded.shape == (11, 3)
  np.testing.assert_allclose(ours, recorded, atol=1e-5)
  labels = ["contradiction", "entailment", "neutral"]
  lines = (recorded_run / "predictions.jsonl").read_text().splitlines()
  predictions = [json.loads(line) for line in lines]
  assert [p["id"] for p in predictions] == [f"test-{i}" for i in range(11)]
  likeliest = [p["label"] for p in predictions]
  near_ties.assert_best(likeliest, recorded, labels)
  for prediction, row in zip(predictions, recorded):
    assert list(prediction["probabilities"]) == labels
    np.testing.assert_allclose(
      list(prediction["probabilities"].values()), row, atol=1e-5
    )
  submitted = (recorded_run / "MNLI-m.tsv").read_text().splitlines()
  assert submitted[0] == "index\tprediction"
  assert submitted[1:] == [f"{i}\t{label}" for i, label in enumerate(likeliest)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Returns a folder with pairs, config and vocabulary."""
  folder = tmp_path_factory.mktemp("data")
  rows = [
    {"a": f"{a} " * n, "b": f"{b} " * n, "same": a == b}
    for n in (1, 2, 3, 4)
    for a in ("of", "and", "the", "in")
    for b in ("of", "and", "the", a)
  ]
  for name in ("train", "dev", "test"):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text(lines)
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", folder / "vocab.txt")
  return folder


FLAGS = [
  "--task_name=jsonl",
  "--text_a_column=a",
  "--text_b_column=b",
  "--label_column=same",
  "--data_dir=.",
  "--bert_config_file=config.json",
  "--vocab_file=vocab.txt",
  "--max_seq_length=16",
  "--do_train",
]


def test_training_on_own_pairs_learns_them(data, run_script):
  result = run_script(
    "run_classifier.py",
    *FLAGS,
    "--do_eval",
    "--do_predict",
    "--output_dir=out",
    "--train_batch_size=16",
    "--learning_rate=1e-3",
    "--num_train_epochs=100",
    "--save_checkpoints_steps=200",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  losses = curves.read(str(data / "out"))["loss"]
  assert losses[400] < 0.5 * losses[20]
  assert runs.results(data / "out")["eval_accuracy"] > 0.9
  label_map = json.loads((data / "out" / "label_map.json").read_text())
  assert label_map["labels"] == ["false", "true"]
  lines = (data / "out" / "predictions.jsonl").read_text().splitlines()
  first = json.loads(lines[0])
  assert (first["text"], first["text_b"], first["label"]) == (
    "of ",
    "of ",
    "true",
  )
  assert "[CLS] of [SEP] of [SEP] -> true" in result.stderr


def test_a_run_without_progress_stops_early(data, run_script):
  flags = [flag for flag in FLAGS if "text_b_column" not in flag]
  result = run_script(
    "run_classifier.py",
    *flags,
    "--do_eval",
    "--output_dir=idle",
    "--max_seq_length=5",
    "--long_text=windows",
    "--train_batch_size=32",
    "--learning_rate=1e-12",
    "--num_train_epochs=8",
    "--eval_every_steps=2",
    "--best_metric=eval_accuracy",
    "--early_stopping_patience=2",
    "--freeze_layers=0",
    "--keep_checkpoint_max=1",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  # Without learning, the first evaluation (step 2) stays the best.
  idle = data / "idle"
  assert runs.results(idle)["global_step"] == 6
  assert (idle / "best" / "model.ckpt-2.index").exists()
  assert "Stopped early at step 6/" in result.stderr
  shapes = checkpoints.CheckpointReader(str(idle / "model.ckpt-6")).shapes
  assert "bert/pooler/dense/bias/adam_m" in shapes
  assert "bert/embeddings/word_embeddings/adam_m" not in shapes
  # 64 texts of 1 to 4 words with room for 3: those of 4 have two windows.
  assert "80 training examples, 20 steps of 32" in result.stderr
