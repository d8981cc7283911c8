"""Calibration: the fit against NumPy, and where it is used."""

import json

import numpy as np
import pytest
from scipy import special

import bert_tf
from bert_tf.checkpoint import run_info
from bert_tf.tasks.classification import calibration
from tests.support import runs, tiny_models

N = 96
WORDS = ("hotel", "star", "river", "city")


def row(i):
  """Returns a text and its label, of which a quarter are wrong."""
  label = ("good", "bad")[i % 2]
  wrong = {"good": "bad", "bad": "good"}[label]
  return f"the {WORDS[i % 4]}", wrong if i % 16 > 11 else label


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_script):
  """Returns the folder of a calibrated run on noisy labels."""
  folder = tmp_path_factory.mktemp("calibration")
  (folder / "config.json").write_text(json.dumps(runs.CONFIG))
  rows = [row(i) for i in range(N)]
  clean = [(text, row(i % 4)[1]) for i, (text, _) in enumerate(rows)]
  for split, lines in (("train", clean), ("dev", rows), ("test", rows)):
    text = "\n".join(["text\tlabel", *map("\t".join, lines)])
    (folder / f"{split}.tsv").write_text(text)
  result = run_script(
    "classifier",
    *("--task_name=tsv", f"--data_dir={folder}", "--output_dir=out"),
    *("--do_train", "--do_eval", "--do_predict", "--calibrate"),
    *("--bert_config_file=config.json", "--use_xla=false"),
    f"--vocab_file={tiny_models.TINY / 'vocab.txt'}",
    *("--max_seq_length=16", "--learning_rate=5e-3", "--num_train_epochs=8"),
    *("--train_batch_size=8", "--eval_every_steps=48"),
    cwd=folder,
  )
  assert result.returncode == 0, result.stderr
  return folder


def read_temperature(folder):
  return run_info.read_run(str(folder)).temperature


def test_the_temperature_has_the_least_loss():
  generator = np.random.default_rng(1)
  logits = 3 * generator.normal(size=(500, 3))
  labels = [generator.choice(3, p=special.softmax(row / 2.5)) for row in logits]
  labels = np.array(labels)
  probabilities = special.softmax(logits, axis=-1)
  found = calibration.calibrate(probabilities, labels)

  def loss(temperature):
    values = special.log_softmax(logits / temperature, axis=-1)
    return -values[np.arange(500), labels].mean()

  temperatures = np.linspace(1, 6, 501)
  best = temperatures[np.argmin([loss(t) for t in temperatures])]
  assert found["temperature"] == pytest.approx(best, abs=0.02)
  assert 2 < best < 3.2
  assert found["ece_after"] < found["ece_before"] / 3


def test_the_error_is_the_difference_of_confidence_and_accuracy():
  # Two bins: 0.9 is right half of the time, and 0.65 always.
  probabilities = np.array([[0.9, 0.1]] * 4 + [[0.35, 0.65]] * 2)
  labels = np.array([0, 1, 0, 1, 1, 1])
  found = calibration.calibration_error(probabilities, labels)
  assert found == pytest.approx((4 * 0.4 + 2 * 0.35) / 6)


def test_predictions_have_the_confidence_of_the_labels(folder):
  results = runs.results(folder / "out")
  assert results["temperature"] > 1.5
  assert results["ece_before"] > 0.15
  assert results["ece_after"] < 0.05
  assert read_temperature(folder / "out") == pytest.approx(
    results["temperature"], rel=1e-5
  )
  texts = [row(i)[0] for i in range(N)]
  answers = bert_tf.load(folder / "out").predict(texts)
  confidences = [max(a["probabilities"].values()) for a in answers]
  assert np.mean(confidences) == pytest.approx(0.75, abs=0.05)
  for name in ("predictions.jsonl", "eval_predictions.jsonl"):
    lines = (folder / "out" / name).read_text().splitlines()
    for answer, line in zip(answers, lines):
      expected = pytest.approx(answer["probabilities"], abs=1e-5)
      assert json.loads(line)["probabilities"] == expected
  assert read_temperature(folder / "out" / "best") > 1.5


def test_evaluating_again_keeps_the_temperature(folder, tmp_path, run_script):
  temperature = read_temperature(folder / "out")
  flags = ("--task_name=tsv", f"--data_dir={folder}")
  for output_dir in (folder / "out", tmp_path / "other"):
    result = run_script(
      "classifier",
      *(*flags, f"--model={folder / 'out'}", f"--output_dir={output_dir}"),
      *("--do_eval", "--do_predict"),
      cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert read_temperature(output_dir) == temperature
  names = ["test_results.tsv"]
  for name in names:
    found, expected = (
      np.loadtxt(path / name) for path in (tmp_path / "other", folder / "out")
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_exports_and_conversions_are_calibrated(folder, tmp_path, run_script):
  texts = [row(i)[0] for i in range(4)]
  expected = bert_tf.load(folder / "out").predict(texts)

  def check(target, command, *flags):
    result = run_script(
      command, f"--model={folder / 'out'}", *flags, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    answers = bert_tf.load(target).predict(texts)
    for answer, other in zip(answers, expected):
      probabilities = pytest.approx(other["probabilities"], abs=1e-5)
      assert answer["probabilities"] == probabilities

  check(tmp_path / "export", "export", f"--export_dir={tmp_path / 'export'}")
  check(
    tmp_path / "original",
    "convert",
    f"--output_checkpoint={tmp_path / 'original' / 'bert_model.ckpt'}",
  )
  pytest.importorskip("safetensors")
  check(
    *(tmp_path / "hf", "convert", "--to=hf"),
    f"--output_checkpoint={tmp_path / 'hf'}",
  )
  # transformers reads the weights alone.
  (tmp_path / "hf" / "run.json").unlink()
  [answer] = bert_tf.load(tmp_path / "hf").predict(texts[:1])
  found = sorted(answer["probabilities"].values())
  values = sorted(expected[0]["probabilities"].values())
  assert found == pytest.approx(values, abs=1e-5)


def test_numbers_are_not_calibrated(folder, tmp_path, run_script):
  result = run_script(
    "classifier",
    *("--task_name=tsv", f"--data_dir={folder}", "--output_dir=out2"),
    *("--do_train", "--do_eval", "--calibrate", "--problem_type=regression"),
    f"--model={folder / 'out'}",
    cwd=tmp_path,
  )
  assert result.returncode == 1
  assert "--calibrate" in result.stderr
