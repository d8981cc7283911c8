"""Tests for run_pretraining.py and `bert-tf fill-mask` as a user runs them."""

import json
import pathlib
import shutil
import signal
import subprocess

import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints
from bert_tf.training import curves
from tests.support import ports, runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
CONFIG = {
  **runs.CONFIG,
  "hidden_size": 32,
  "intermediate_size": 64,
  "max_position_embeddings": 64,
}
WORDS = "the of and a in to is was for on as by with at from his".split()


def texts() -> str:
  """Returns documents that repeat a word, so that neighbours reveal a mask."""
  return "\n\n".join("\n".join([" ".join([word] * 9)] * 15) for word in WORDS)


@pytest.fixture(scope="module")
def data(tmp_path_factory, run_script):
  """Returns a folder with text, TFRecords, config and vocabulary."""
  folder = tmp_path_factory.mktemp("data")
  (folder / "text.txt").write_text(texts())
  (folder / "config.json").write_text(json.dumps(CONFIG))
  shutil.copy(GOLDEN / "tiny" / "vocab.txt", folder / "vocab.txt")
  result = run_script(
    "create_pretraining_data.py",
    "--input_file=text.txt",
    "--output_file=data.tfrecord",
    "--vocab_file=vocab.txt",
    "--max_seq_length=32",
    "--max_predictions_per_seq=5",
    "--dupe_factor=5",
    cwd=folder,
  )
  assert result.returncode == 0, result.stderr
  return folder


BASE_FLAGS = [
  "--bert_config_file=config.json",
  "--input_file=data.tfrecord",
  "--max_seq_length=32",
  "--max_predictions_per_seq=5",
]
TRAIN_FLAGS = [
  *BASE_FLAGS,
  "--do_train",
  "--train_batch_size=16",
  "--learning_rate=2e-3",
  "--num_train_steps=300",
  "--num_warmup_steps=20",
  "--save_checkpoints_steps=100",
  "--log_every_steps=50",
]


@pytest.fixture(scope="module")
def trained(data, run_script):
  """Returns the log of a run in data/out that trained and evaluated."""
  result = run_script(
    "run_pretraining.py",
    *TRAIN_FLAGS,
    "--do_eval",
    "--max_eval_steps=5",
    "--vocab_file=vocab.txt",
    "--output_dir=out",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  return result.stderr


def test_evaluation_of_a_recorded_run_is_the_originals(
  shared, tmp_path, run_script
):
  result = run_script(
    "run_pretraining.py",
    f"--input_file={shared}/golden/e2e/pretrain_tiny.tfrecord",
    f"--bert_config_file={GOLDEN}/tiny_perturbed/bert_config.json",
    f"--init_checkpoint={GOLDEN}/tiny_perturbed/bert_model.ckpt",
    "--output_dir=out",
    "--do_eval",
    "--max_seq_length=64",
    "--max_predictions_per_seq=10",
    "--max_eval_steps=7",
    "--eval_batch_size=16",
    cwd=tmp_path,
  )
  assert result.returncode == 0, result.stderr
  recorded = runs.results(shared / "golden" / "e2e" / "pretrain")
  ours = runs.results(tmp_path / "out")
  assert list(ours)[:-1] == list(recorded)
  for name, value in recorded.items():
    assert ours[name] == pytest.approx(value, abs=1e-5), name
  assert ours["perplexity"] == pytest.approx(np.exp(ours["masked_lm_loss"]))


def test_training_learns_the_text(data, trained):
  losses = curves.read(str(data / "out"))["masked_lm_loss"]
  # Twenty reports, though --log_every_steps is 50.
  assert list(losses) == list(range(15, 301, 15))
  assert losses[300] < 0.6 * losses[45]
  result = runs.results(data / "out")
  assert result["global_step"] == 300
  # Guessing one of 16 words would be right in 6% of the cases.
  assert result["masked_lm_accuracy"] > 0.5
  assert "step 300/300: loss" in trained
  assert "next_sentence_accuracy" in trained and "examples/s" in trained


def test_a_run_writes_the_files_of_the_original(data, trained):
  names = {p.name for p in (data / "out").iterdir()}
  events = {name for name in names if name.startswith("events.out.tfevents")}
  assert events
  steps = [0, 100, 200, 300]
  assert names - events == {
    ".run.lock",
    "checkpoint",
    "commands.jsonl",
    "eval",
    "eval_results.txt",
    "bert_config.json",
    "run.json",
    "vocab.txt",
    *(f"model.ckpt-{s}.index" for s in steps),
    *(f"model.ckpt-{s}.data-00000-of-00001" for s in steps),
  }


def test_sigterm_saves_and_exits_with_status_143(data, start_python):
  process = start_python(
    ROOT / "run_scripts" / "run_pretraining.py",
    *TRAIN_FLAGS,
    "--num_train_steps=100000",
    "--nouse_xla",
    "--output_dir=stopped",
    cwd=data,
    stderr=subprocess.PIPE,
    text=True,
  )
  lines = []
  for line in process.stderr:
    lines.append(line)
    if "step 50/100000" in line:
      process.send_signal(signal.SIGTERM)
  assert process.wait() == 143  # Clusters take 0 for finished.
  assert "Stopped by SIGTERM" in lines[-1]
  step = int(checkpoints.find_latest(str(data / "stopped")).rsplit("-", 1)[1])
  assert step >= 50
  assert f"at step {step}/100000" in lines[-1]


def test_fill_mask_names_the_word_of_the_text(data, trained, run_script):
  result = run_script(
    "fill-mask",
    "--bert_config_file=config.json",
    "--vocab_file=vocab.txt",
    "--init_checkpoint=out/model.ckpt-300",
    "--text=was was was [MASK] was was was was",
    "--top_k=2",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  lines = result.stdout.splitlines()
  assert lines[0] == "was was was [MASK] was was was was"
  assert len(lines) == 4
  assert lines[2].split()[1] == "was"


def test_fill_mask_of_a_file_is_json_lines_with_every_mask(
  data, trained, run_script
):
  (data / "masked.txt").write_text(
    "a [MASK] to\n\n[MASK] of and [MASK] in\nno mask\n"
  )
  result = run_script(
    "fill-mask",
    "--bert_config_file=config.json",
    "--vocab_file=vocab.txt",
    "--init_checkpoint=out/model.ckpt-300",
    "--input_file=masked.txt",
    cwd=data,
  )
  assert result.returncode == 0, result.stderr
  content = [json.loads(line) for line in result.stdout.splitlines()]
  assert [len(f["masks"]) for f in content] == [1, 2, 0]
  assert "row 2 has no [MASK]: 'no mask'" in result.stderr
  for mask in content[1]["masks"]:
    probabilities = [p["probability"] for p in mask]
    assert len(mask) == 5
    assert probabilities == sorted(probabilities, reverse=True)


def assert_refused(result: subprocess.CompletedProcess, expected: str):
  """Asserts exit status 1 and a single error line without traceback."""
  assert result.returncode == 1, result.stderr
  assert "Traceback" not in result.stderr
  assert expected in result.stderr.splitlines()[-1]


def test_a_run_with_a_time_limit_ends_without_a_number_of_steps(
  data, run_script
):
  flags = [flag for flag in TRAIN_FLAGS if "_steps" not in flag]
  flags += ["--train_minutes=0.05", "--output_dir=timed"]
  result = run_script("run_pretraining.py", *flags, cwd=data)
  assert result.returncode == 0, result.stderr
  assert "to fill 0.05 min" in result.stderr
  result = run_script(
    "run_pretraining.py", *flags, "--num_warmup_steps=9", cwd=data
  )
  assert_refused(result, "--num_warmup_steps")
  result = run_script("run_pretraining.py", *flags, cwd=data)
  assert "nothing is left to train" in result.stderr


def test_text_is_refused_on_several_machines(data, run_script, monkeypatch):
  cluster = {"worker": [f"127.0.0.1:{ports.free_port()}"]}
  task = {"type": "worker", "index": 0}
  value = json.dumps({"cluster": cluster, "task": task})
  monkeypatch.setenv("TF_CONFIG", value)
  flags = ("--text=text.txt", "--train_minutes=1", "--output_dir=x")
  result = run_script(
    *("run_pretraining.py", *flags, "--distribution=multi_worker"), cwd=data
  )
  assert_refused(result, "--distribution=multi_worker: --text")


def test_an_unavailable_device_is_refused(data, run_script):
  result = run_script(
    "run_pretraining.py", *TRAIN_FLAGS, "--use_tpu", "--output_dir=x", cwd=data
  )
  assert_refused(result, "there is no TPU 'local' (--tpu_name): TPUs not found")
