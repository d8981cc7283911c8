"""The fine-tuning commands: the steps that they run, and idle flags."""

import pathlib
import subprocess
import sys

import pytest
from absl import flags

from bert_tf import task_registry
from bert_tf.cli import config_flags, fine_tune

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def parse(monkeypatch, program, *arguments):
  """Parses flags of a classifier; `program` decides what its defaults are."""
  monkeypatch.setattr(sys, "argv", [program])
  values = flags.FlagValues()
  fine_tune.define(task_registry.TASKS["classification"], values)
  values(["program", *arguments])
  return values


@pytest.mark.parametrize(
  ("program", "arguments", "expected"),
  [
    ("bert-tf classifier", "", "do_train do_eval"),
    ("bert-tf classifier", "--do_train", "do_train"),
    ("bert-tf classifier", "--do_predict", "do_predict"),
    ("bert-tf classifier", "--do_eval --do_predict", "do_eval do_predict"),
    ("bert-tf classifier", "--nodo_eval", "do_train"),
    ("bert-tf classifier", "--do_train=false", "do_eval"),
    ("bert-tf classifier", "--nodo_train --do_predict", "do_predict"),
    ("bert-tf classifier", "--nodo_train --nodo_eval", ""),
    ("run_scripts/run_classifier.py", "", ""),
    ("run_scripts/run_classifier.py", "--do_eval", "do_eval"),
    ("run_scripts/run_classifier.py", "--nodo_eval", ""),
  ],
)
def test_bert_tf_has_default_steps_and_a_script_has_none(
  program, arguments, expected, monkeypatch
):
  values = parse(monkeypatch, program, *arguments.split())
  assert config_flags.choose_steps(values) == set(expected.split())


MODEL = (
  f"--bert_config_file={GOLDEN}/tiny_classifier/bert_config.json",
  f"--vocab_file={GOLDEN}/tiny/vocab.txt",
  f"--init_checkpoint={GOLDEN}/tiny_classifier/bert_model.ckpt",
)
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
    *(*MODEL, "--max_seq_length=128"),
    cwd=tmp_path,
    stderr=subprocess.PIPE,
    text=True,
  )
  _, error = process.communicate()
  assert process.returncode == 1
  assert predict_file in error and train_file not in error


@pytest.mark.parametrize(
  ("script", "arguments", "named"),
  [
    (
      "run_classifier.py",
      ("--task_name=mrpc", "--data_dir=x", "--text_a_column=a"),
      ("--text_a_column", "--task_name=mrpc"),
    ),
    (
      "run_classifier.py",
      ("--task_name=csv", "--data_dir=x", "--xnli_language=de"),
      ("--xnli_language", "--task_name=csv"),
    ),
    (
      "run_classifier.py",
      ("--task_name=csv", "--data_dir=x", "--eval_fraction=0.3"),
      ("--eval_fraction", "--data_dir"),
    ),
    (
      "run_classifier.py",
      ("--processor=a:B", "--data_dir=x", "--label_column=a"),
      ("--label_column", "--processor"),
    ),
  ],
)
def test_a_flag_without_effect_is_refused(
  script, arguments, named, tmp_path, run_script
):
  (tmp_path / "x").mkdir()
  result = run_script(
    script, *arguments, *MODEL, "--output_dir=o", cwd=tmp_path
  )
  assert result.returncode == 1
  (line,) = result.stderr.splitlines()
  assert all(name in line for name in named)
