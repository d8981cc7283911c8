import os
import signal
import time

import pytest

from bert_tf.files import worker_pool


def square(task, report):
  for _ in range(task):
    report(1)
  return os.getpid(), task * task


def fail(task, report):
  if task == 2:
    raise ValueError(f"task {task} is wrong")
  return task


def die(task, report):
  os.kill(os.getpid(), signal.SIGKILL)


def hold_a_file(path, report):
  """Makes a file and removes it when the worker is ended."""
  try:
    with open(path, "w"):
      while True:
        time.sleep(0.01)
  finally:
    os.remove(path)


def fail_beside_files(path, report):
  """Fails when the other workers have made their files."""
  if not path.endswith("fail"):
    return hold_a_file(path, report)
  deadline = time.monotonic() + 600
  while len(os.listdir(os.path.dirname(path))) < 2:
    assert time.monotonic() < deadline
    time.sleep(0.01)
  raise ValueError("failed beside files")


@pytest.mark.parametrize("num_workers", [1, 3])
def test_every_task_is_done_and_every_count_reported(num_workers):
  reported = []
  results = dict(
    worker_pool.run(square, [4, 1, 3, 2, 5], num_workers, reported.append)
  )
  assert {task: square for task, (_, square) in results.items()} == {
    1: 1,
    2: 4,
    3: 9,
    4: 16,
    5: 25,
  }
  assert sum(reported) == 15


def test_an_error_in_a_worker_is_raised_with_its_traceback():
  with pytest.raises(ValueError, match="task 2 is wrong") as raised:
    list(worker_pool.run(fail, [1, 2, 3], 2, lambda count: None))
  assert "in fail" in str(raised.value.__cause__)


def test_a_killed_worker_ends_the_run():
  with pytest.raises(ChildProcessError, match="memory"):
    list(worker_pool.run(die, ["one", "one"], 2, lambda count: None))


def test_a_failure_ends_the_other_workers_after_they_clean_up(tmp_path):
  tasks = [str(tmp_path / name) for name in ("a", "b", "fail")]
  with pytest.raises(ValueError, match="failed beside files"):
    list(worker_pool.run(fail_beside_files, tasks, 3, lambda count: None))
  assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("num_workers", [1, 2])
def test_tasks_are_made_one_ahead(num_workers):
  taken = []

  def tasks():
    for task in range(1, 7):
      taken.append(task)
      yield task

  results = worker_pool.run(square, tasks(), num_workers, lambda count: None)
  for num_done, _ in enumerate(results):
    assert len(taken) <= num_done + num_workers + 1  # One ahead.
  assert taken == list(range(1, 7))
