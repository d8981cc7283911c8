"""Runs tasks in worker processes that end together with their parent.

The standard pools leave workers running after Ctrl-C, and wait forever for a
killed worker. Here an interruption or a failure ends all workers at once, after
they have cleaned up.
"""

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

_REPORT_INTERVAL = 0.2  # Minimum seconds between two reports of a worker.
_CLEAN_UP_TIME = 10.0  # Seconds that a worker has for cleaning up.

# function(task, report) -> result; it calls report(count).
Function = Callable[[Any, Callable[[int], None]], Any]


class _Throttle:
  """Adds up counts and sends the sum at most every _REPORT_INTERVAL seconds."""

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
  """Yields (task, result) when a task is finished, in any order.

  Workers end when the caller stops iterating, for any reason.

  Args:
    function: called as function(task, report). With several workers it must be
      picklable, like tasks and results, because processes are spawned. A script
      then needs `if __name__ == "__main__"`.
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
  with _start_workers(function, len(first)) as workers:
    yield from _distribute(waiting, workers, report)


def _distribute(
  waiting: Iterator[Any],
  workers: dict[multiprocessing.connection.Connection, Any],
  report: Callable[[int], None],
) -> Generator[tuple[Any, Any], None, None]:
  """Gives each worker one task at a time; yields (task, result)."""
  busy: dict[multiprocessing.connection.Connection, Any] = {}
  upcoming = next(waiting, None)

  def give_next(connection: multiprocessing.connection.Connection) -> None:
    nonlocal upcoming
    if upcoming is not None:
      busy[connection] = upcoming
      connection.send(upcoming)
      upcoming = next(waiting, None)  # Prepared while the workers are busy.

  for connection in workers:
    give_next(connection)
  while busy:
    ready: Any = multiprocessing.connection.wait(list(busy))
    for connection in ready:
      try:
        kind, payload = connection.recv()
      except (EOFError, OSError):
        raise _worker_error(workers[connection], busy[connection]) from None
      if kind == "report":
        report(payload)
      elif kind == "failure":
        error, trace = payload
        raise error from RuntimeError(trace)
      else:
        yield busy.pop(connection), payload
        give_next(connection)


def _worker_error(process: Any, task: Any) -> ChildProcessError:
  process.join()
  status = process.exitcode
  cause = f"signal {-status}" if status < 0 else f"exit status {status}"
  return ChildProcessError(
    f"a worker process ended by {cause} at {task}. Signal 9 usually means that "
    "memory ran out: use fewer workers or smaller tasks."
  )


@contextlib.contextmanager
def _start_workers(
  function: Function, num_workers: int
) -> Iterator[dict[multiprocessing.connection.Connection, Any]]:
  """Starts processes; after the scope, ends them with time to clean up."""
  context = multiprocessing.get_context("spawn")
  workers = {}
  try:
    for _ in range(num_workers):
      ours, theirs = context.Pipe()
      process = context.Process(
        target=_run_worker, args=(function, theirs), daemon=True
      )
      with _without_interrupts():
        process.start()
        workers[ours] = process
      theirs.close()
    yield workers
  finally:
    for process in workers.values():
      process.terminate()
    for process in workers.values():
      process.join(_CLEAN_UP_TIME)
      if process.is_alive():
        process.kill()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
  """Delays Ctrl-C in this scope, and in processes that it starts.

  Only the parent handles Ctrl-C. It then ends its workers. Windows cannot delay
  a signal.
  """
  if not hasattr(signal, "pthread_sigmask"):
    yield
    return
  before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_worker(
  function: Function, connection: multiprocessing.connection.Connection
) -> None:
  """Runs the tasks that a worker receives, until the parent ends it."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  signal.signal(signal.SIGTERM, _interrupt)
  throttle = _Throttle(lambda count: connection.send(("report", count)))
  # The parent interrupts its workers. If the parent has died, receiving or
  # reporting fails, and the worker ends silently.
  with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
    while True:
      task = connection.recv()
      try:
        result = function(task, throttle.add)
      except Exception as error:  # Raised again in the parent.
        trace = traceback.format_exc()
        connection.send(("failure", (_picklable(error), trace)))
        continue
      throttle.flush()
      connection.send(("result", result))


def _picklable(error: Exception) -> Exception:
  """Returns the error, or one with its message if it cannot be pickled."""
  try:
    pickle.loads(pickle.dumps(error))
  except Exception:  # Whatever the error's own methods raise.
    return RuntimeError(f"{type(error).__name__}: {error}")
  return error


def _interrupt(signum: int, frame: Any) -> None:
  """Handles the first SIGTERM like Ctrl-C, so that `finally` blocks run."""
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  raise KeyboardInterrupt
