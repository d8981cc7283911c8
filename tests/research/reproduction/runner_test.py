"""Order of the runs, failures, interruptions and missing data."""

import dataclasses
import pathlib

import pytest

from bert_tf.model import model_config
from research import rows
from research.reproduction import config as config_lib
from research.reproduction import report, runner

MODEL = runner.Model(
  name="mine",
  path="/home/me/model",
  bert_config=model_config.BertConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2
  ),
  hash="abc",
)


class Commands:
  """Stands in for `runner.run_command`: writes the results of a command."""

  def __init__(self):
    self.executed = []
    self.fails_at = ()  # Words of commands that fail.
    self.stops_at = ()  # Words of commands that a signal ends.

  def __call__(self, words, log):
    if set(self.stops_at) & set(words):
      raise KeyboardInterrupt
    self.executed.append(words)
    if set(self.fails_at) & set(words):
      return "exit status 1: bert-tf classifier: error: /home/me/model is odd"
    (name,) = [w for w in words if w.startswith("--output_dir=")]
    folder = pathlib.Path(name.partition("=")[2])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.ckpt-9.index").write_text("x")
    results = "f1 = 0.912345678\neval_accuracy = 0.75\n"
    (folder / "eval_results.txt").write_text(results)
    return None


@pytest.fixture
def commands(monkeypatch):
  commands = Commands()
  monkeypatch.setattr(runner, "run_command", commands)
  monkeypatch.setattr(runner, "open_model", lambda config: MODEL)
  monkeypatch.setattr(report, "draw", lambda path, best: None)
  return commands


@pytest.fixture
def config(tmp_path, monkeypatch):
  monkeypatch.setenv("BERT_TF_HOME", str(tmp_path / "downloads"))
  for name in ("MRPC", "RTE"):
    folder = tmp_path / "data" / name
    folder.mkdir(parents=True)
    for file in ("train.tsv", "dev.tsv"):
      (folder / file).write_text("x\n")
  return config_lib.ReproductionConfig(
    output_dir=str(tmp_path / "out"),
    model=MODEL.path,
    data=str(tmp_path / "data"),
    learning_rates=("5e-5",),
    batch_sizes=(32,),
    seeds=(1, 2),
  )


def test_finished_runs_are_skipped_and_lose_their_checkpoints(
  config, commands, monkeypatch
):
  runner.run(config)
  assert len(commands.executed) == 4
  runs = pathlib.Path(config.output_dir, "runs")
  assert {p.name for p in runs.rglob("*.*")} == {"eval_results.txt"}
  runner.run(config)
  assert len(commands.executed) == 4
  # Another seed, other data and other weights are other runs.
  runner.run(dataclasses.replace(config, seeds=(1, 2, 3)))
  assert len(commands.executed) == 6
  pathlib.Path(config.data, "RTE", "dev.tsv").write_text("y\n")
  runner.run(config)
  assert len(commands.executed) == 8
  other = dataclasses.replace(MODEL, hash="other")
  monkeypatch.setattr(runner, "open_model", lambda config: other)
  runner.run(config)
  assert len(commands.executed) == 12


def test_a_row_describes_the_run_without_the_paths_of_the_machine(
  config, commands
):
  runner.run(config)
  row = rows.read_all(config.rows, report.Row)[0]
  assert row.config["task"] == "MRPC" and row.config["model"] == "mine"
  assert row.results == {"f1": 0.91235, "eval_accuracy": 0.75}
  assert row.data.keys() == {"model", "train.tsv", "dev.tsv"}
  assert row.versions.keys() >= {"bert_tf", "commit", "tensorflow"}
  [command] = row.commands
  assert command.startswith("bert-tf classifier --task_name=MRPC ")
  assert "--data_dir=DATA/MRPC --model=MODEL" in command
  assert "--output_dir=OUT " in command


def test_a_failure_is_recorded_and_the_next_runs_start(config, commands):
  commands.fails_at = ("--task_name=MRPC",)
  with pytest.raises(ValueError, match="MRPC.*seed1.*MRPC.*seed2.* failed"):
    runner.run(config)
  assert len(commands.executed) == 4
  failed = [r for r in rows.read_all(config.rows, report.Row) if r.error]
  assert {r.config["task"] for r in failed} == {"MRPC"}
  assert failed[0].error.endswith("error: MODEL is odd")
  text = pathlib.Path(config.output_dir, "report.md").read_text()
  assert "MODEL is odd" in text
  # The next start executes only the failed runs, and adds to their time.
  commands.fails_at = ()
  (path,) = map(str, pathlib.Path(config.rows).glob("*MRPC*seed1*"))
  rows.write(path, dataclasses.replace(failed[0], seconds=1000.0))
  runner.run(config)
  assert len(commands.executed) == 6
  assert rows.read(path, report.Row).seconds >= 1000
  assert all(r.is_finished for r in rows.read_all(config.rows, report.Row))


def test_an_interrupted_run_continues_in_its_folder(config, commands):
  commands.stops_at = ("--seed=2",)
  with pytest.raises(KeyboardInterrupt):
    runner.run(config)
  first, second = rows.read_all(config.rows, report.Row)
  assert first.is_finished and second.error == "interrupted"
  (path,) = map(str, pathlib.Path(config.rows).glob("*MRPC*seed2*"))
  rows.write(path, dataclasses.replace(second, seconds=1000.0))
  commands.stops_at = ()
  runner.run(config)
  assert len(commands.executed) == 4
  assert rows.read(path, report.Row).seconds >= 1000


def test_tasks_without_data_are_left_out_with_a_way_to_get_them(config, caplog):
  data = runner.find_data(config, MODEL.size)
  assert list(data) == ["MRPC", "RTE"]
  lines = [record.getMessage() for record in caplog.records]
  assert any("CoLA" in x and "bert-tf download CoLA" in x for x in lines)
  assert not any("README" in line or "\n" in line for line in lines)
  named = dataclasses.replace(config, tasks=("MRPC", "QQP"))
  with pytest.raises(ValueError, match="for QQP; run: bert-tf download QQP$"):
    runner.find_data(named, MODEL.size)
