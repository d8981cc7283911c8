"""Commands and results in a run's folder."""

import dataclasses
import json
import os
import sys

from bert_tf.model_folder import run_info
from bert_tf.training import config as training_config
from bert_tf.training import results as results_lib


@dataclasses.dataclass(frozen=True)
class Config:
  task_name: str
  train: training_config.TrainConfig


def test_every_command_is_a_line(tmp_path, monkeypatch):
  train = training_config.TrainConfig(output_dir=str(tmp_path))
  for argument in ("--task_name=ü", "--output_dir=a b"):
    monkeypatch.setattr(sys, "argv", ["bert-tf classifier", argument])
    results_lib.add_command(str(tmp_path), Config("ü", train))
  lines = (tmp_path / run_info.COMMANDS_FILE).read_text().splitlines()
  first, second = map(json.loads, lines)
  assert second["command"] == "bert-tf classifier '--output_dir=a b'"
  assert first["settings"]["task_name"] == "ü"
  assert first["settings"]["learning_rate"] == 5e-5  # Of the nested config.
  assert "tensorflow" in first["versions"]


def test_results_are_sorted_lines_and_some_go_first(tmp_path):
  path = tmp_path / "eval_results.txt"
  results = {"loss": 0.1, "accuracy": 1 / 3, "f1": 1.0, "global_step": 7}
  results_lib.write_results(str(path), results)
  assert path.read_text() == (
    "accuracy = 0.33333334\nf1 = 1.0\nglobal_step = 7\nloss = 0.1\n"
  )
  results_lib.write_results(str(path), results, first=("loss", "global_step"))
  names = [line.split(" = ")[0] for line in path.read_text().splitlines()]
  assert names == ["global_step", "loss", "accuracy", "f1"]
  assert os.listdir(tmp_path) == ["eval_results.txt"]
