"""The log of commands in a run's folder."""

import dataclasses
import json
import sys

from bert_tf.model_folder import run_info
from bert_tf.training import config as training_config
from bert_tf.training import run_log


@dataclasses.dataclass(frozen=True)
class Config:
  task_name: str
  train: training_config.TrainConfig


def add(folder, monkeypatch, *arguments):
  train = training_config.TrainConfig(output_dir=str(folder))
  monkeypatch.setattr(sys, "argv", ["bert-tf classifier", *arguments])
  run_log.add(str(folder), Config("ü", train))


def test_every_command_is_a_line(tmp_path, monkeypatch):
  add(tmp_path, monkeypatch, "--task_name=ü")
  add(tmp_path, monkeypatch, "--output_dir=a b")
  lines = (tmp_path / run_info.COMMANDS_FILE).read_text().splitlines()
  first, second = map(json.loads, lines)
  assert second["command"] == "bert-tf classifier '--output_dir=a b'"
  assert first["settings"]["task_name"] == "ü"
  assert (
    first["settings"]["learning_rate"] == 5e-5
  )  # A setting of the nested config.
  assert "tensorflow" in first["versions"]
