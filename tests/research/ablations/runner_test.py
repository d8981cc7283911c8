"""Order of the runs, failures, and cutting of task data."""

import pathlib
import shutil

import pytest

from research import rows
from research.ablations import config as config_lib
from research.ablations import report, runner, runs, tasks, work


class FakeWorker:
  """Records the executed runs; fails or stops at chosen ones."""

  executed: list[str] = []
  fails_at: tuple[str, ...] = ()
  stops_at: tuple[str, ...] = ()

  def __init__(self, config, task_files, all_runs):
    pass

  def hash_data(self, run):
    return {"train.txt": "t", "vocab.txt": "v"}

  def execute(self, run):
    if run.name in self.stops_at:
      raise KeyboardInterrupt
    if run.name in self.fails_at:
      raise RuntimeError("the disk is on fire\nand more")
    self.executed.append(run.name)
    curve = {"training": {"step": [1], "word_pieces": [2], "loss": [3.0]}}
    if run.fine_tuning:
      return {"score": 50.0}, {}
    return {"perplexity": 50.0}, curve


@pytest.fixture
def config(tmp_path, monkeypatch):
  monkeypatch.setattr(work, "Worker", FakeWorker)
  monkeypatch.setattr(FakeWorker, "executed", [])
  monkeypatch.setattr(FakeWorker, "fails_at", ())
  monkeypatch.setattr(FakeWorker, "stops_at", ())
  monkeypatch.setattr(tasks, "find", lambda config: {"MRPC": None})
  monkeypatch.setattr(report, "write", lambda config, experiments: None)
  return config_lib.AblationsConfig(
    output_dir=str(tmp_path / "out"),
    text="text.txt",
    scale="smoke",
    experiments=("sizes", "curves"),
    seeds=(1, 2),
  )


def test_a_finished_run_is_not_executed_again(config):
  runner.run(config)
  # Two sizes with a fine-tuning each and two seeds; curves share a size.
  assert len(FakeWorker.executed) == len(set(FakeWorker.executed)) == 8
  assert all("seed1" in name for name in FakeWorker.executed[:4])
  FakeWorker.executed.clear()
  runner.run(config)
  assert FakeWorker.executed == []


@pytest.fixture
def third(config):
  """Returns the name of the third of 8 runs."""
  runner.run(config)
  shutil.rmtree(config.rows)
  name = FakeWorker.executed[2]
  FakeWorker.executed.clear()
  return name


def test_a_failure_is_named_and_the_next_runs_start(config, third, monkeypatch):
  monkeypatch.setattr(FakeWorker, "fails_at", (third,))
  with pytest.raises(ValueError, match=third):
    runner.run(config)
  assert len(FakeWorker.executed) == 7
  (failed,) = [r for r in rows.read_all(config.rows, runs.Row) if r.error]
  assert failed.error == "RuntimeError: the disk is on fire"
  # The next start executes only the failed run.
  FakeWorker.executed.clear()
  monkeypatch.setattr(FakeWorker, "fails_at", ())
  runner.run(config)
  assert FakeWorker.executed == [third]


def test_a_signal_ends_the_command_without_a_row(config, third, monkeypatch):
  monkeypatch.setattr(FakeWorker, "stops_at", (third,))
  with pytest.raises(KeyboardInterrupt):
    runner.run(config)
  assert len(FakeWorker.executed) == 2
  assert len(rows.read_all(config.rows, runs.Row)) == 2


def test_changed_data_in_the_same_file_are_cut_again(tmp_path):
  parts = []
  for letter in "ab":
    path = tmp_path / letter / "dev.tsv"
    path.parent.mkdir()
    path.write_text("".join(f"{letter}{i}\n" for i in range(9)))
    files = tasks.TaskFiles(str(path), str(path))
    for _ in range(2):
      part = tasks.cut("QNLI", files, 3, str(tmp_path / "cut"))
      lines = pathlib.Path(part.dev).read_text().splitlines()
      assert len(lines) == 4 and {line[0] for line in lines} == {letter}
    parts.append(part)
  assert parts[0] != parts[1]
  # Rows are identified by the content of the files, not by their location.
  moved = shutil.copytree(tmp_path / "a", tmp_path / "moved")
  files = tasks.TaskFiles(str(moved / "dev.tsv"), str(moved / "dev.tsv"))
  same = tasks.cut("QNLI", files, 3, str(tmp_path / "elsewhere"))
  assert same.hashes == parts[0].hashes != parts[1].hashes
