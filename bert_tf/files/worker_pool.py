"""Runs tasks in processes that end together with their parent.

A ProcessPoolExecutor alone waits for running tasks after Ctrl-C or a failure,
and leaves its processes behind if the parent is killed. Here they exit when a
pipe ends that only the parent holds open.
"""

import collections
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent import futures
from concurrent.futures import process
from multiprocessing import connection
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def run(
  function: Callable[[Task], Result], tasks: Iterable[Task], num_workers: int
) -> Generator[tuple[Task, Result], None, None]:
  """Yields (task, result) in the order of the tasks.

  Workers end at once when the caller stops iterating, for any reason. What they
  were writing then stays behind.

  Args:
    function: picklable, like tasks and results, if there are several workers.
    tasks: iterated when needed, `2 * num_workers` ahead.
    num_workers: number of processes. A single worker is this process.

  Raises:
    ChildProcessError: if a worker dies without an exception.
    Exception: the exception that `function` raised in a worker.
  """
  if num_workers == 1:
    for task in tasks:
      yield task, function(task)
    return
  context = multiprocessing.get_context("spawn")
  receiver, sender = context.Pipe(duplex=False)
  pool = futures.ProcessPoolExecutor(
    num_workers, context, _start_worker, (receiver,)
  )
  waiting = collections.deque[tuple[Task, futures.Future[Result]]]()
  try:
    for task in tasks:
      waiting.append((task, pool.submit(function, task)))
      if len(waiting) > 2 * num_workers:
        first, future = waiting.popleft()
        yield first, future.result()
    for first, future in waiting:
      yield first, future.result()
  except process.BrokenProcessPool as error:
    raise ChildProcessError(
      "a worker process was killed, usually because memory ran out."
    ) from error
  finally:
    sender.close()
    pool.shutdown(cancel_futures=True)
    receiver.close()


def _start_worker(parent: connection.Connection) -> None:
  def end_with_parent() -> None:
    connection.wait([parent])
    os._exit(1)

  signal.signal(signal.SIGINT, signal.SIG_IGN)
  threading.Thread(target=end_with_parent, daemon=True).start()
