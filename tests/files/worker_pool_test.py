import multiprocessing
import os
import signal
import time

import pytest

from bert_tf.files import worker_pool


def square(task):
  return os.getpid(), task * task


def die(task):
  os.kill(os.getpid(), signal.SIGKILL)


def fail_beside_a_long_task(task):
  if task == "short":
    raise ValueError("failed beside a long task")
  time.sleep(3600)


@pytest.mark.parametrize("num_workers", [1, 3])
def test_results_have_the_order_of_the_tasks(num_workers):
  results = list(worker_pool.run(square, [4, 1, 3, 2, 5], num_workers))
  squares = [(task, square) for task, (_, square) in results]
  assert squares == [(4, 16), (1, 1), (3, 9), (2, 4), (5, 25)]
  is_here = {process == os.getpid() for _, (process, _) in results}
  assert is_here == {num_workers == 1}


def test_an_error_in_a_worker_is_raised_and_ends_the_others():
  with pytest.raises(ValueError, match="failed beside a long task") as raised:
    list(worker_pool.run(fail_beside_a_long_task, ["short", "long"], 2))
  assert "in fail_beside" in str(raised.value.__cause__)
  assert not multiprocessing.active_children()


def test_a_killed_worker_ends_the_run():
  with pytest.raises(ChildProcessError, match="memory"):
    list(worker_pool.run(die, ["one", "one"], 2))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_tasks_are_made_when_they_are_needed(num_workers):
  taken = []

  def tasks():
    for task in range(12):
      taken.append(task)
      yield task

  results = worker_pool.run(square, tasks(), num_workers)
  for num_done, _ in enumerate(results):
    assert len(taken) <= num_done + 2 * num_workers + 1
  assert taken == list(range(12))
