"""Tests for the steps that the fine-tuning commands run."""

import pathlib
import subprocess
import sys

import pytest
from absl import flags

from bert_tf.cli import fine_tuning_flags
from bert_tf.tasks.swag import config as swag_config

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def parse(config_class, default_steps, *arguments):
  values = flags.FlagValues()
  fine_tuning_flags.define(config_class, default_steps, values)
  values(["program", *arguments])
  return values


def steps(*arguments):
  """Returns the steps that swag runs with these flags."""
  values = parse(swag_config.SwagConfig, ("do_train", "do_eval"), *arguments)
  chosen = fine_tuning_flags.chosen_steps(values)
  names = ("do_train", "do_eval", "do_predict")
  return [name for name in names if chosen.get(name, values[name].value)]


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    ((), ["do_train", "do_eval"]),
    (("--do_train",), ["do_train"]),
    (("--do_predict",), ["do_predict"]),
    (("--do_eval", "--do_predict"), ["do_eval", "do_predict"]),
    (("--nodo_eval",), ["do_train"]),
    (("--do_train=false",), ["do_eval"]),
    (("--nodo_train", "--do_predict"), ["do_predict"]),
    (("--nodo_train", "--nodo_eval"), []),
  ],
)
def test_a_command_trains_and_evaluates_unless_told_otherwise(
  arguments, expected, monkeypatch
):
  monkeypatch.setattr(sys, "argv", ["bert-tf swag"])
  assert steps(*arguments) == expected


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [((), []), (("--do_eval",), ["do_eval"]), (("--nodo_eval",), [])],
)
def test_a_script_runs_only_the_steps_that_the_user_set(
  arguments, expected, monkeypatch
):
  monkeypatch.setattr(sys, "argv", ["run_scripts/run_swag.py"])
  assert steps(*arguments) == expected


@pytest.mark.parametrize("program", ["bert-tf swag", "run_swag.py"])
def test_the_help_tells_the_default_of_the_steps(program, monkeypatch):
  monkeypatch.setattr(sys, "argv", [program])
  values = parse(swag_config.SwagConfig, ("do_train", "do_eval"))
  default = "true" if program == "bert-tf swag" else "false"
  for name in ("do_train", "do_eval"):
    assert f"Default: {default}, but" in values[name].help
  assert "Default" not in values["do_predict"].help


# For each command: its flags, and the files to train on and to predict.
COMMANDS = {
  "classifier": (
    ("--task_name=csv", "--data_dir=data"),
    ("train.csv", "test.csv"),
  ),
  "squad": (
    ("--train_file=train.json", "--predict_file=dev.json", "--doc_stride=32"),
    ("train.json", "dev.json"),
  ),
  "ner": (("--data_dir=data",), ("train.txt", "test.txt")),
  "swag": (("--data_dir=data",), ("train.csv", "test.csv")),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_runs_only_the_chosen_step(name, tmp_path, start_python):
  (tmp_path / "data").mkdir()
  arguments, (train_file, predict_file) = COMMANDS[name]
  process = start_python(
    *("-m", "bert_tf", name, *arguments, "--do_predict", "--output_dir=out"),
    f"--bert_config_file={GOLDEN}/tiny_classifier/bert_config.json",
    f"--vocab_file={GOLDEN}/tiny/vocab.txt",
    f"--init_checkpoint={GOLDEN}/tiny_classifier/bert_model.ckpt",
    "--max_seq_length=128",
    cwd=tmp_path,
    stderr=subprocess.PIPE,
    text=True,
  )
  _, error = process.communicate()
  assert process.returncode == 1
  assert predict_file in error and train_file not in error
