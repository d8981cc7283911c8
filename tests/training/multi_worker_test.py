"""Several processes that train together, on this machine's loopback."""

import json
import signal
import socket
import subprocess
import time

import numpy as np
import pytest

from bert_tf.checkpoint import checkpoints
from tests.support import checkout, scale_run

pytestmark = pytest.mark.slow
DROPOUT = {
  **scale_run.DROPOUT,
  "save_checkpoints_steps": 5,
  "evaluates": False,
}


def environments():
  """Returns the TF_CONFIG of each of two workers, on free ports."""
  with socket.socket() as first, socket.socket() as second:
    for server in (first, second):
      server.bind(("localhost", 0))
    ports = [server.getsockname()[1] for server in (first, second)]
  cluster = {"worker": [f"localhost:{port}" for port in ports]}
  return [
    {
      "TF_CONFIG": json.dumps(
        {"cluster": cluster, "task": {"type": "worker", "index": i}}
      )
    }
    for i in (0, 1)
  ]


@pytest.fixture(scope="module")
def start_both(start_python):
  """Returns a function that starts the runs of a folder on two workers."""

  def start(folder, runs):
    return [
      scale_run.start(
        start_python, folder, "multi_worker", 1, runs, **environment
      )
      for environment in environments()
    ]

  return start


@pytest.fixture(scope="module")
def folder(tmp_path_factory, start_python, start_both):
  """The folder of runs of two workers, and a run of one worker."""
  folder = tmp_path_factory.mktemp("runs")
  runs = {
    # The chief saves step 0 before the other worker gets there.
    "workers": {"late": 3.0},
    "workers_micro_2": {"gradient_accumulation_steps": 2},
    "dropout": DROPOUT,
  }
  workers = start_both(folder, runs)
  for log in map(scale_run.finish, workers):
    assert "Waiting for the workers localhost:" in log
  alone = scale_run.start(start_python, folder, "one", 1, {"whole": {}})
  scale_run.finish(alone)
  return folder


@pytest.mark.parametrize("name", ["workers", "workers_micro_2"])
def test_two_workers_take_the_steps_of_one(folder, name):
  scale_run.assert_same_run(folder / name, folder / "whole")


def wait_for(path, processes):
  for _ in range(6_000):
    if path.exists():
      return
    for process in processes:
      assert process.poll() is None, process.stderr.read()
    time.sleep(0.1)
  raise AssertionError(f"{path} did not appear")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_to_one_worker_ends_both_and_both_resume(
  folder, start_both, tmp_path, number
):
  workers = start_both(tmp_path, {"run": {**DROPOUT, "pause": 1.0}})
  wait_for(tmp_path / "run" / "model.ckpt-5.index", workers)
  workers[1].send_signal(number)
  logs = [process.communicate(timeout=600)[1] for process in workers]
  if number == signal.SIGKILL:
    assert workers[0].returncode == 1
    assert "another worker ended or cannot be reached" in logs[0]
  else:
    assert [process.returncode for process in workers] == [143, 143]
    assert all("Stopped by SIGTERM at step" in log for log in logs)
  assert not (tmp_path / "run" / "model.ckpt-20.index").exists()
  for log in map(scale_run.finish, start_both(tmp_path, {"run": DROPOUT})):
    assert "Resuming from" in log
  # A sum of two numbers does not depend on their order.
  expected = scale_run.tensors(folder / "dropout")
  tensors = scale_run.tensors(tmp_path / "run")
  for name, value in expected.items():
    np.testing.assert_array_equal(tensors[name], value)


def test_signals_end_the_wait_for_other_workers(start_python, tmp_path):
  processes = {
    number: scale_run.start(
      start_python, tmp_path, "multi_worker", 1, {}, **environments()[0]
    )
    for number in (signal.SIGTERM, signal.SIGINT)
  }
  for process in processes.values():
    next(line for line in process.stderr if "Waiting for" in line)
  time.sleep(2)
  for number, process in processes.items():
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 143 or number == signal.SIGINT


def test_only_the_chief_writes_checkpoints(folder):
  events = list((folder / "workers").glob("events.*"))
  assert len(events) == 1
  assert checkpoints.find_latest(str(folder / "workers")).endswith("ckpt-20")


def test_workers_with_different_flags_are_refused_by_name(
  tmp_path, start_python
):
  for name in ("config.json", "a"):
    (tmp_path / name).write_text("{}")
  command = [
    str(checkout.ROOT / "run_scripts" / "run_pretraining.py"),
    "--distribution=multi_worker",
    "--bert_config_file=config.json",
    "--input_file=a",
    f"--output_dir={tmp_path / 'out'}",
  ]
  workers = [
    start_python(
      *command,
      f"--train_batch_size={size}",
      cwd=tmp_path,
      env={**scale_run.environment(), **environment},
      stderr=subprocess.PIPE,
      text=True,
    )
    for size, environment in zip((8, 16), environments())
  ]
  for process in workers:
    log = process.communicate(timeout=600)[1]
    assert process.returncode == 1
    assert "the 2 workers differ: --train_batch_size is 16 and 8." in log
  assert not (tmp_path / "out").exists()
