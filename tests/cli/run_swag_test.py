"""Tests for `bert-tf swag` as a user runs it."""

import csv
import json
import pathlib
import random
import shutil

import numpy as np
import pytest

from bert_tf.training import curves
from tests.support import runs

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CONFIG = runs.CONFIG
WORDS = "the of and a in to is for on as by with at from".split()
COLUMNS = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2"]
COLUMNS += ["gold-source", "ending0", "ending1", "ending2", "ending3", "label"]


def made_rows(num_rows):
  """Yields rows of SWAG whose right ending is the one with "his"."""
  rng = random.Random(num_rows)
  for i in range(num_rows):
    label = rng.randrange(4)
    endings = [" ".join(rng.choices(WORDS, k=3)) for _ in range(4)]
    endings[label] += ", his"
    context = " ".join(rng.choices(WORDS, k=rng.randrange(1, 6)))
    start = f"{context} she"
    yield [i, "v", i, start, context, "she", "gold", *endings, label]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Returns a folder with files in SWAG's format, config and vocabulary."""
  folder = tmp_path_factory.mktemp("data")
  for name, num_rows, end in (
    ("train", 48, None),
    ("val", 20, None),
    ("test", 5, -1),
  ):
    with (folder / f"{name}.csv").open("w", newline="") as opened:
      writer = csv.writer(opened)
      writer.writerow(COLUMNS[:end])
      writer.writerows(row[:end] for row in made_rows(num_rows))
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", folder / "vocab.txt")
  return folder


FLAGS = [
  "--data_dir=.",
  "--bert_config_file=config.json",
  "--vocab_file=vocab.txt",
  "--max_seq_length=16",
  "--train_batch_size=8",
  "--learning_rate=5e-3",
  "--do_train",
  "--use_xla=false",
]


def test_training_on_swags_files_learns_them(data, run_script):
  result = run_script(
    "swag",
    *FLAGS,
    "--do_eval",
    "--do_predict",
    "--output_dir=out",
    "--num_train_epochs=20",
    "--log_every_steps=6",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  assert (
    "48 training examples, 120 steps of 8, 12 of them warm-up" in result.stderr
  )
  out = data / "out"
  losses = curves.read(str(out))["loss"]
  assert losses[120] < 0.1 * losses[12]
  lines = (out / "eval_results.txt").read_text().splitlines()
  assert lines[0] == "eval_accuracy = 1.0"
  assert [line.split(" = ")[0] for line in lines[1:]] == [
    "eval_loss",
    "global_step",
    "loss",
  ]
  lines = (out / "predictions.jsonl").read_text().splitlines()
  predictions = [json.loads(line) for line in lines]
  probabilities = np.loadtxt(out / "test_results.tsv")
  assert probabilities.shape == (5, 4)
  np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
  rows = list(made_rows(5))
  assert [p["id"] for p in predictions] == [f"test-{i + 1}" for i in range(5)]
  assert [p["label"] for p in predictions] == [row[-1] for row in rows]
  for prediction, row, chances in zip(predictions, rows, probabilities):
    assert prediction["text"] == row[4]
    assert prediction["text_b"] == f"she {row[7 + row[-1]]}"
    np.testing.assert_array_equal(prediction["probabilities"], chances)
  first = next(made_rows(48))
  pieces = [ending.replace(",", " ,") for ending in first[7:11]]
  for ending in pieces:
    expected = f"[CLS] {first[4]} [SEP] she {ending} [SEP] -> {first[-1]}"
    assert expected in result.stderr
