"""Runs tasks in processes that end together with their parent.

A ProcessPoolExecutor alone waits for running tasks after Ctrl-C or a failure,
and leaves its processes behind if the parent is killed. Here they get a pipe,
whose end makes them clean up and exit.
"""

import _thread
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent import futures
from concurrent.futures import process
from multiprocessing import connection
from typing import Any

_REPORT_INTERVAL = 0.2  # Seconds between two reports.
_CLEAN_UP_TIME = 10.0  # Seconds that a worker has for cleaning up.

# function(task, report) -> result; it calls report(count).
Function = Callable[[Any, Callable[[int], None]], Any]

# In a worker: the sum of all reports, the pipe, and whether it runs a task.
_counter: Any
_parent: connection.Connection
_is_busy = False


def run(
  function: Function,
  tasks: Iterable[Any],
  num_workers: int,
  report: Callable[[int], None],
) -> Generator[tuple[Any, Any], None, None]:
  """Yields (task, result) when a task is finished, in any order.

  Workers end when the caller stops iterating, for any reason.

  Args:
    function: picklable, like tasks and results, if there are several workers.
    tasks: iterated when needed, one task ahead.
    num_workers: number of processes. A single worker or task runs in this
      process.
    report: receives the counts that the function reports, in this process.

  Raises:
    ChildProcessError: if a worker dies without an exception.
    Exception: the exception that `function` raised in a worker.
  """
  waiting = iter(tasks)
  first = list(itertools.islice(waiting, num_workers))
  waiting = itertools.chain(first, waiting)
  if len(first) <= 1:
    for task in waiting:
      yield task, function(task, report)
    return
  context = multiprocessing.get_context("spawn")
  counter = context.Value("q")
  theirs, ours = context.Pipe(duplex=False)
  pool = futures.ProcessPoolExecutor(
    len(first), context, _start_worker, (counter, theirs)
  )
  unfinished: dict[futures.Future, Any] = {}
  num_reported = 0
  try:
    while True:
      for task in itertools.islice(waiting, len(first) + 1 - len(unfinished)):
        with _without_interrupts():
          unfinished[pool.submit(_run_task, function, task)] = task
      if not unfinished:
        return
      done, _ = futures.wait(
        unfinished, _REPORT_INTERVAL, futures.FIRST_COMPLETED
      )
      count = counter.value
      report(count - num_reported)
      num_reported = count
      for future in done:
        yield unfinished.pop(future), future.result()
  except process.BrokenProcessPool as error:
    raise ChildProcessError(
      "a worker process was ended from outside, usually as memory ran out."
    ) from error
  finally:
    ours.close()
    pool.shutdown(cancel_futures=True)
    theirs.close()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
  """Delays Ctrl-C in this scope, and for ever in processes that it starts.

  Windows cannot delay a signal.
  """
  if not hasattr(signal, "pthread_sigmask"):
    yield
    return
  before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(counter: Any, parent: connection.Connection) -> None:
  global _counter, _parent
  _counter, _parent = counter, parent
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  signal.signal(signal.SIGTERM, _interrupt)
  threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
  connection.wait([_parent])
  _thread.interrupt_main(signal.SIGTERM)
  time.sleep(_CLEAN_UP_TIME)
  os._exit(1)


def _interrupt(signum: int, frame: Any) -> None:
  """Handles the first SIGTERM of a task like Ctrl-C: `finally` blocks run."""
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  if not _is_busy:
    os._exit(1)
  raise KeyboardInterrupt


def _run_task(function: Function, task: Any) -> Any:
  global _is_busy
  if _parent.poll():  # It was queued before the parent stopped.
    return None
  _is_busy = True
  try:
    return function(task, _report)
  finally:
    _is_busy = False


def _report(count: int) -> None:
  with _counter.get_lock():
    _counter.value += count
