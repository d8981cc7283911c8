"""Runs tasks on worker processes that end together with their parent.

The standard pools keep a worker running after Ctrl-C and wait forever for one
that was killed. Here an interruption or a failure ends all workers at once,
after they have cleaned up.
"""

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

# Least seconds between two reports of a worker.
_REPORT_INTERVAL = 0.2
# Seconds a worker may clean up after it was told to end.
_CLEAN_UP_TIME = 10.0

# task, report(count) -> result.
Function = Callable[[Any, Callable[[int], None]], Any]


class _Throttle:
  """Sums counts and sends the sum at most every _REPORT_INTERVAL seconds."""

  def __init__(self, send: Callable[[int], None]) -> None:
    self._send = send
    self._count = 0
    self._sent_at = time.monotonic()

  def add(self, count: int) -> None:
    self._count += count
    if time.monotonic() - self._sent_at >= _REPORT_INTERVAL:
      self.flush()

  def flush(self) -> None:
    self._send(self._count)
    self._count = 0
    self._sent_at = time.monotonic()


def run(
  function: Function,
  tasks: Iterable[Any],
  num_workers: int,
  report: Callable[[int], None],
) -> Generator[tuple[Any, Any], None, None]:
  """Yields (task, function(task, report)) as they are done, in any order.

  Tasks are taken from `tasks` as they are needed, one ahead. One worker or one
  task runs in this process. Several are started with "spawn", so the function,
  tasks and results must be picklable, and a script needs `if __name__ ==
  "__main__"`. Workers are ended when the caller stops iterating, whatever the
  reason. Counts that the function reports are passed to `report` in this
  process.

  Raises:
    ChildProcessError: if a worker died without an exception.
    Exception: as `function` raised it in a worker.
  """
  waiting = iter(tasks)
  first = list(itertools.islice(waiting, num_workers))
  waiting = itertools.chain(first, waiting)
  if len(first) <= 1:
    for task in waiting:
      yield task, function(task, report)
    return
  with _started(function, len(first)) as workers:
    yield from _distribute(waiting, workers, report)


def _distribute(
  waiting: Iterator[Any],
  workers: dict[multiprocessing.connection.Connection, Any],
  report: Callable[[int], None],
) -> Generator[tuple[Any, Any], None, None]:
  """Gives every worker a task and, when it is done, the next."""
  busy: dict[multiprocessing.connection.Connection, Any] = {}
  upcoming = next(waiting, None)

  def give_next(connection: multiprocessing.connection.Connection) -> None:
    nonlocal upcoming
    if upcoming is not None:
      busy[connection] = upcoming
      connection.send(upcoming)
      upcoming = next(waiting, None)  # Perhaps made now, while workers work.

  for connection in workers:
    give_next(connection)
  while busy:
    ready: Any = multiprocessing.connection.wait(list(busy))
    for connection in ready:
      try:
        kind, payload = connection.recv()
      except (EOFError, OSError):
        raise _died(workers[connection], busy[connection]) from None
      if kind == "report":
        report(payload)
      elif kind == "failure":
        error, trace = payload
        raise error from RuntimeError(trace)
      else:
        yield busy.pop(connection), payload
        give_next(connection)


def _died(process: Any, task: Any) -> ChildProcessError:
  process.join()
  status = process.exitcode
  by_whom = f"signal {-status}" if status < 0 else f"exit status {status}"
  return ChildProcessError(
    f"a worker process ended by {by_whom} at {task}; signal 9 is mostly the "
    "system short of memory: use fewer workers, or smaller tasks."
  )


@contextlib.contextmanager
def _started(
  function: Function, num_workers: int
) -> Iterator[dict[multiprocessing.connection.Connection, Any]]:
  """Starts processes; at the end stops them after they have cleaned up."""
  context = multiprocessing.get_context("spawn")
  workers = {}
  try:
    for _ in range(num_workers):
      ours, theirs = context.Pipe()
      process = context.Process(
        target=_work, args=(function, theirs), daemon=True
      )
      # Ctrl-C is for the parent alone, which ends its workers.
      before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
      try:
        process.start()
        workers[ours] = process
      finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
      theirs.close()
    yield workers
  finally:
    for process in workers.values():
      process.terminate()
    for process in workers.values():
      process.join(_CLEAN_UP_TIME)
      if process.is_alive():
        process.kill()


def _work(
  function: Function, connection: multiprocessing.connection.Connection
) -> None:
  """Runs in a worker: does the tasks it receives until it is ended."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  signal.signal(signal.SIGTERM, _interrupt)
  throttle = _Throttle(lambda count: connection.send(("report", count)))
  # The parent interrupts its workers. If it is gone instead, receiving or
  # reporting fails, and nobody is left to tell.
  with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
    while True:
      task = connection.recv()
      try:
        result = function(task, throttle.add)
      except Exception as error:  # Raised again in the parent.
        connection.send(("failure", (error, traceback.format_exc())))
        continue
      throttle.flush()
      connection.send(("result", result))


def _interrupt(signum: int, frame: Any) -> None:
  """Handles the first SIGTERM as if it were Ctrl-C, so `finally` runs."""
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  raise KeyboardInterrupt
