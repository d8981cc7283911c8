"""`run_scripts/sweep.py` runs a command for each seed and setting."""

import csv
import math
import pathlib
import sys

import pytest

from run_scripts import sweep

COMMAND = ("classifier", "--task_name=MRPC", "--output_dir=out")


class FakeCommand:
  """Writes a result by a formula instead of training; counts its runs."""

  def __init__(self):
    self.words = []
    self.failing = ""

  def __call__(self, module, words, output=None):
    self.words.append(words)
    flags = dict(w.removeprefix("--").split("=") for w in words[1:])
    if self.failing and self.failing in flags["output_dir"]:
      return 1
    score = float(flags.get("learning_rate", 0)) + float(flags["seed"]) / 100
    pathlib.Path(flags["output_dir"]).mkdir(parents=True)
    with open(f"{flags['output_dir']}/eval_results.txt", "w") as writer:
      writer.write(f"f1 = {score}\neval_loss = {-score}\nglobal_step = 5\n")
    return 0


@pytest.fixture
def command(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  fake = FakeCommand()
  monkeypatch.setattr(sweep, "run_module", fake)
  return fake


@pytest.fixture
def run(monkeypatch):
  def run(*options, command=COMMAND):
    monkeypatch.setattr(sys, "argv", ["sweep.py", *options, *command])
    sweep.main()
    with open("out/sweep_results.tsv") as reader:
      return list(csv.DictReader(reader, delimiter="\t"))

  return run


GRID = "--grid=learning_rate=0.1,0.5;train_batch_size=16"


def test_each_setting_has_mean_spread_and_best_run(command, run):
  best, other = run("--metric=f1", "--seeds=1,3", GRID)
  assert best["learning_rate"] == "0.5" and best["train_batch_size"] == "16"
  assert best["num_runs"] == "2" and other["learning_rate"] == "0.1"
  values = [float(best[f"f1_{name}"]) for name in ("mean", "std")]
  assert values == pytest.approx([0.52, 0.02 / math.sqrt(2)])
  assert float(best["best"]) == pytest.approx(0.53)
  assert best["best_run"] == "learning_rate_0.5_train_batch_size_16_seed_3"
  assert float(best["eval_loss_mean"]) == pytest.approx(-0.52)
  assert not [name for name in best if "global_step" in name]
  rows = run("--metric=eval_loss", "--seeds=1,3", GRID)  # Lower is better.
  assert [row["learning_rate"] for row in rows] == ["0.5", "0.1"]


def test_finished_runs_are_not_repeated(command, run):
  first = run("--metric=f1", "--seeds=1,2")
  assert run("--metric=f1", "--seeds=1,2") == first
  assert len(command.words) == 2
  run("--metric=f1", "--seeds=1,2,3")
  assert len(command.words) == 3
  with pytest.raises(SystemExit, match="seed_1 has a run with other flags"):
    other = (*COMMAND, "--max_seq_length=9")
    run("--metric=f1", "--seeds=1", command=other)


def test_a_failed_run_ranks_last_and_is_tried_again(command, run):
  command.failing = "0.5"
  with pytest.raises(SystemExit, match="some runs failed"):
    run("--metric=f1", GRID)
  command.failing = ""
  assert [r["learning_rate"] for r in run("--metric=f1", GRID)] == [
    "0.5",
    "0.1",
  ]
  assert len(command.words) == 3


def test_a_command_runs_in_its_own_process(tmp_path):
  log = tmp_path / "log.txt"
  with open(log, "w") as output:
    assert sweep.run_module("json.tool", ["--help"], output) == 0
    assert sweep.run_module("json.tool", [str(tmp_path)], output) > 0
  assert "usage" in log.read_text()
