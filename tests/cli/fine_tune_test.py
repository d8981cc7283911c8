"""The fine-tuning commands: the steps that they run, and idle flags."""

import pathlib
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


@pytest.mark.parametrize(
  ("name", "arguments", "train_file", "predict_file"),
  [
    ("ner", ("--data_dir=data",), "train.txt", "test.txt"),
    (
      "squad",
      ("--train_file=train.json", "--predict_file=dev.json", "--doc_stride=32"),
      "train.json",
      "dev.json",
    ),
  ],
)
def test_a_command_runs_only_the_chosen_step(
  name, arguments, train_file, predict_file, tmp_path, run_script
):
  (tmp_path / "data").mkdir()
  result = run_script(
    *(name, *arguments, "--do_predict", "--output_dir=out"),
    *(*MODEL, "--max_seq_length=128"),
    cwd=tmp_path,
  )
  assert result.returncode == 1
  assert predict_file in result.stderr and train_file not in result.stderr


@pytest.mark.parametrize(
  ("arguments", "named"),
  [
    ("--task_name=mrpc --text_a_column=a", "--text_a_column --task_name=mrpc"),
    ("--task_name=csv --xnli_language=de", "--xnli_language --task_name=csv"),
    ("--task_name=csv --eval_fraction=0.3", "--eval_fraction --data_dir"),
    ("--processor=a:B --label_column=a", "--label_column --processor"),
  ],
)
def test_a_flag_without_effect_is_refused(
  arguments, named, tmp_path, run_script
):
  (tmp_path / "x").mkdir()
  flags = (*arguments.split(), "--data_dir=x", "--output_dir=o", *MODEL)
  result = run_script("run_classifier.py", *flags, cwd=tmp_path)
  assert result.returncode == 1
  (line,) = result.stderr.splitlines()
  assert all(name in line for name in named.split())
