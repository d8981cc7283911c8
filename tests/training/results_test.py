"""Commands and results in a run's folder."""

import dataclasses
import json
import os
import sys

import pytest
import tensorflow as tf

from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.training import config as training_config
from bert_tf.training import results as results_lib
from tests.support import runs


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


@pytest.mark.parametrize(
  ("train", "train_data", "named"),
  [
    ({}, "4 examples", []),
    ({"log_every_steps": 7, "save_checkpoints_steps": 3}, "4 examples", []),
    ({"train_batch_size": 8}, "4 examples", ["`train_batch_size=32`, now 8"]),
    ({"seed": 1, "precision": "tf32"}, "4 examples", ["seed", "precision"]),
    ({}, "5 examples", ["`train_data=4 examples`, now 5 examples"]),
  ],
)
def test_a_resumed_run_is_compared_with_the_command_that_began_it(
  tmp_path, train, train_data, named
):
  @dataclasses.dataclass(frozen=True)
  class TrainingConfig:
    train: training_config.TrainConfig
    do_train: bool = True

  def add(train_data, **changes):
    with runs.logged() as log:
      values = training_config.TrainConfig(output_dir=str(tmp_path), **changes)
      config = TrainingConfig(values)
      results_lib.add_command(str(tmp_path), config, train_data)
    return log()

  # Nothing was saved yet, so the second command begins the run.
  assert not add("3 examples", train_batch_size=1) + add("4 examples")
  checkpoints.save(str(tmp_path), {"global_step": tf.zeros([], tf.int64)}, 1)
  commands = tmp_path / run_info.COMMANDS_FILE
  for _ in range(2):  # The command that resumed it changes nothing.
    log = add(train_data, **train)
    assert all(text in log for text in named) and bool(log) == bool(named)
    assert log.count("now") == len(named)
  commands.write_text("{\n" + commands.read_text())
  assert not add(train_data, **train)  # The file is damaged.
