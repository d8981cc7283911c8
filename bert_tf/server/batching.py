"""Computes requests that arrive together as a batch.

Each thread has a task, which takes batches from the queue. The thread joins,
computes and splits a batch. If this raises, each request of the batch is
computed separately, and only those that raise again fail. A thread that has
stalled takes no batches; if all have, every request fails. If a task itself
ends, all requests are answered with an error and `ended` is set.
"""

import asyncio
import collections
import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from bert_tf.server import config as server_config
from bert_tf.server import workers

Arrays = Mapping[str, np.ndarray]

# Rows of a batch are at most _MAX_RATIO times as long as its oldest request, or
# are all shorter than _SHORT_SIZE bytes, for which a batch of one costs more.
_MAX_RATIO, _SHORT_SIZE = 2, 100
# Seconds between checks whether a stalled thread works again.
_STALLED_INTERVAL_S = 0.05
# The speed of a function is the median over its last NUM_TIMED batches. It is
# unknown before _MIN_TIMED batches, because the first call may take seconds.
NUM_TIMED, _MIN_TIMED = 9, 3
# Seconds between measurements of the event loop's delay.
_DELAY_INTERVAL_S = 0.05


class OverloadedError(Exception):
  """Too many requests are waiting, or a request would wait too long.

  Attributes:
    retry_after_s: seconds after which the client should retry, at least 1.
  """

  def __init__(self, message: str, expected_wait_s: float) -> None:
    super().__init__(message)
    self.retry_after_s = max(1, math.ceil(expected_wait_s))


class EndedError(Exception):
  """The batcher has ended."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Waiting:
  key: Hashable  # Equal for requests that can share a batch.
  name: Hashable  # Name of the function.
  inputs: Arrays
  num_rows: int
  num_inputs: int  # Rows, windows or choices that the model computes.
  size: int  # Approximate length of the longest row.
  can_be_joined: bool
  arrived: float  # Time of arrival by time.monotonic.
  result: asyncio.Future  # Receives the outputs.


@dataclasses.dataclass(eq=False)
class _Thread:
  """A thread and the batch that it computes."""

  worker: workers.Worker
  batch: Sequence[_Waiting] = ()
  busy_until: float = 0.0  # Expected end of the batch, by time.monotonic.


class Batch(NamedTuple):
  """Statistics of a computed batch."""

  num_rows: int
  seconds: float  # Time of the computation.
  waited_s: list[float]  # Waiting time of each request.


class Estimates:
  """Measures the speed of functions and the delay of the event loop.

  Attributes:
    loop_delay_s: seconds by which the event loop was late when last measured.
  """

  def __init__(self) -> None:
    # Seconds per input of the last batches, by name of the function.
    self._timed: dict[Hashable, collections.deque[float]] = {}
    self.loop_delay_s = 0.0

  def record(self, name: Hashable, num_inputs: int, seconds: float) -> None:
    """Records the seconds that a function took for a number of inputs."""
    timed = self._timed.setdefault(name, collections.deque(maxlen=NUM_TIMED))
    timed.append(seconds / num_inputs)

  def seconds(self, num_inputs: Mapping[Hashable, int]) -> float:
    """Estimates the seconds to compute numbers of inputs, by function name.

    A function with fewer than _MIN_TIMED batches counts as 0 seconds.
    """
    return sum(
      count * statistics.median(self._timed[name])
      for name, count in num_inputs.items()
      if len(self._timed.get(name, ())) >= _MIN_TIMED
    )

  async def measure_loop_delay(self) -> None:
    """Measures the delay of the event loop again and again, without end."""
    while True:
      start = time.monotonic()
      await asyncio.sleep(_DELAY_INTERVAL_S)
      self.loop_delay_s = time.monotonic() - start - _DELAY_INTERVAL_S


class Batcher:
  """Computes requests in batches, in its own threads.

  TensorFlow uses all cores within a call, but not all the time, and a short
  text need not wait for a batch of long ones. A batcher belongs to the event
  loop in which it is created.

  Args:
    compute: takes the name of a function, its inputs and `proceed`, and
      returns the outputs; all arrays have the same number of rows. Several
      threads call it. Before each part of a long computation it calls
      `proceed`, which raises if no client waits any more.
    config: the limits.
    on_batch: called for each computed batch.

  Attributes:
    workers: the threads that compute.
    ended: event, set when `close` or a fault has ended the batcher.
    num_batches: number of computed batches.
    num_requests: number of requests in these batches.
  """

  def __init__(
    self,
    compute: Callable[[Any, Arrays, Callable[[], None]], Arrays],
    config: server_config.ServerConfig,
    on_batch: Callable[[Batch], None] = lambda batch: None,
  ) -> None:
    self._compute = compute
    self._on_batch = on_batch
    self._config = config
    self._waiting: collections.deque[_Waiting] = collections.deque()
    self._estimates = Estimates()
    self._arrival = asyncio.Event()
    self._threads = [
      _Thread(workers.Worker("compute", config.max_stall_s))
      for _ in range(config.num_batch_threads)
    ]
    self.workers = tuple(thread.worker for thread in self._threads)
    self.ended = asyncio.Event()
    self._tasks = [asyncio.create_task(self._run(t)) for t in self._threads]
    for task in self._tasks:
      task.add_done_callback(self._end)
    self._measuring = asyncio.create_task(self._estimates.measure_loop_delay())
    self.num_batches = self.num_requests = 0

  @property
  def num_waiting(self) -> int:
    """Number of waiting requests."""
    return len(self._waiting)

  async def submit(
    self,
    name: Hashable,
    inputs: Arrays,
    size: int = 0,
    can_be_joined: bool = True,
    num_inputs: int | None = None,
  ) -> Arrays:
    """Returns the outputs of a request to a function.

    Args:
      name: name of the function.
      inputs: arrays with the same number of rows.
      size: approximate length of the longest row, similar within a batch.
      can_be_joined: whether the request may share a batch.
      num_inputs: number of inputs that the model computes for the rows, to
        estimate the time; None for one per row.

    Raises:
      OverloadedError: if too many requests are waiting, or this one would wait
        too long.
      EndedError: if the batcher has ended.
      StalledError: if all threads have stalled.
      Exception: any exception of the computation.
    """
    self._check_open()
    # Rows of different shapes would need padding.
    sizes = tuple((key, array.shape[1:]) for key, array in inputs.items())
    num_rows = len(next(iter(inputs.values())))
    waiting = _Waiting(
      (name, sizes) if can_be_joined else object(),
      name,
      inputs,
      num_rows,
      num_rows if num_inputs is None else num_inputs,
      size,
      can_be_joined,
      time.monotonic(),
      asyncio.get_running_loop().create_future(),
    )
    self._waiting.append(waiting)
    self._arrival.set()
    try:
      return await waiting.result
    except asyncio.CancelledError:  # The client has disconnected.
      if waiting in self._waiting:
        self._waiting.remove(waiting)
      raise

  def expected_wait_s(self) -> float:
    """Returns the seconds that a new request would wait.

    It waits for the event loop, for a thread to finish its batch and for its
    share of the waiting requests. A late batch is assumed to take again as long
    as it is late.
    """
    now = time.monotonic()
    threads = self._working_threads()
    remaining = (abs(t.busy_until - now) if t.batch else 0 for t in threads)
    queued = self._expected_seconds(self._waiting) / len(threads)
    return self._estimates.loop_delay_s + min(remaining) + queued

  async def close(self) -> None:
    """Stops the batcher; waiting requests fail with EndedError."""
    for task in (*self._tasks, self._measuring):
      task.cancel()
    await asyncio.gather(*self._tasks, return_exceptions=True)
    await self.ended.wait()
    for worker in self.workers:
      worker.close()

  def _check_open(self) -> None:
    if self.ended.is_set():
      raise EndedError("the server has stopped computing.")
    wait = self.expected_wait_s()
    if len(self._waiting) >= self._config.max_queue_size:
      raise OverloadedError(
        f"{len(self._waiting)} requests are waiting, which is the limit; try "
        "again later.",
        wait,
      )
    # While less than a batch waits, requests are accepted, however slow the
    # model is. Otherwise the server would reject all during a slow batch.
    num_rows = sum(waiting.num_rows for waiting in self._waiting)
    fits = num_rows < self._config.max_batch_size
    limit = self._config.max_expected_wait_s
    is_late = self._estimates.loop_delay_s > limit
    if is_late or (wait > limit and not fits):
      raise OverloadedError(
        f"the request would wait about {wait:.1f} s, but the limit is "
        f"{limit:g} s; try again later.",
        wait,
      )

  def _expected_seconds(self, requests: Iterable[_Waiting]) -> float:
    num_inputs: collections.Counter[Hashable] = collections.Counter()
    for waiting in requests:
      num_inputs[waiting.name] += waiting.num_inputs
    return self._estimates.seconds(num_inputs)

  async def _run(self, thread: _Thread) -> None:
    while True:
      while not self._waiting:
        self._arrival.clear()
        await self._arrival.wait()
      await self._wait_for_batch()
      if thread not in self._working_threads():
        await asyncio.sleep(_STALLED_INTERVAL_S)
        continue
      thread.batch = self._take()  # Empty if another thread took all.
      await self._answer(thread, thread.batch)
      thread.batch = ()

  def _working_threads(self) -> list[_Thread]:
    """Returns the threads that have not stalled, or all if every one has."""
    working = [t for t in self._threads if not t.worker.is_stalled()]
    return working or self._threads

  def _end(self, ended: asyncio.Task) -> None:
    if not ended.cancelled() and (error := ended.exception()):
      logging.error("The computation of batches failed:", exc_info=error)
    for task in self._tasks:
      task.cancel()
    computing = (
      waiting for thread in self._threads for waiting in thread.batch
    )
    for waiting in (*computing, *self._waiting):
      _fail(waiting, EndedError("the server ended before it could answer."))
    self._waiting.clear()
    self.ended.set()

  async def _wait_for_batch(self) -> None:
    while self._waiting:
      first = self._waiting[0]
      end = first.arrived + self._config.max_wait_ms / 1e3
      remaining = end - time.monotonic()
      num_rows = sum(w.num_rows for w in self._waiting if w.key == first.key)
      if num_rows >= self._config.max_batch_size or remaining <= 0:
        return
      self._arrival.clear()
      # Before Python 3.12, asyncio.wait_for may ignore a task's cancellation.
      loop = asyncio.get_running_loop()
      timer = loop.call_later(remaining, self._arrival.set)
      try:
        await self._arrival.wait()
      finally:
        timer.cancel()

  def _take(self) -> list[_Waiting]:
    """Removes the next batch from the queue and returns it.

    The batch holds the request that has waited longest. Others fill it, most
    similar in size first, because all rows are padded to the longest.
    """
    # Clients may have disconnected.
    waiting = [w for w in self._waiting if not w.result.cancelled()]
    if not waiting:
      self._waiting.clear()
      return []
    first, batch, room = waiting[0], [], self._config.max_batch_size
    for candidate in sorted(waiting, key=lambda w: abs(w.size - first.size)):
      small, large = sorted((candidate.size, first.size))
      is_similar = large <= max(_MAX_RATIO * small, _SHORT_SIZE)
      # The first request is included even if it exceeds a batch.
      fits = candidate is first or (candidate.num_rows <= room and is_similar)
      if candidate.key == first.key and fits:
        batch.append(candidate)
        room -= candidate.num_rows
    taken = set(batch)
    self._waiting = collections.deque(w for w in waiting if w not in taken)
    return batch

  async def _answer(self, thread: _Thread, batch: Sequence[_Waiting]) -> None:
    # A result is done if its client has disconnected.
    batch = [waiting for waiting in batch if not waiting.result.done()]
    if not batch:
      return
    start = time.monotonic()
    thread.busy_until = start + self._expected_seconds(batch)
    try:
      outputs, seconds = await thread.worker.run(
        self._compute_batch, batch, thread.worker.report
      )
    except Exception as error:  # noqa: BLE001  Raised in `submit`.
      if len(batch) == 1:
        _fail(batch[0], error)
        return
      for waiting in batch:
        await self._answer(thread, [waiting])
      return
    for waiting, rows in zip(batch, outputs):
      if not waiting.result.done():
        waiting.result.set_result(rows)
    self._count(batch, start, seconds)

  def _compute_batch(
    self, batch: Sequence[_Waiting], report: Callable[[], None]
  ) -> tuple[list[Arrays], float]:
    """Returns the outputs of each request, and the seconds of this call."""

    def proceed() -> None:
      report()
      if all(waiting.result.done() for waiting in batch):
        raise RuntimeError("no client waits for the answer any more.")

    start = time.monotonic()
    inputs = batch[0].inputs
    if len(batch) > 1:
      inputs = {
        name: np.concatenate([waiting.inputs[name] for waiting in batch])
        for name in inputs
      }
    outputs = self._compute(batch[0].name, inputs, proceed)
    if not isinstance(outputs, Mapping) or not outputs:
      raise RuntimeError(f"the model did not return outputs: {outputs!r:.60}.")
    num_rows = sum(waiting.num_rows for waiting in batch)
    for name, array in outputs.items() if batch[0].can_be_joined else ():
      if np.shape(array)[:1] != (num_rows,):
        raise RuntimeError(
          f"the output {name!r} of the model has shape {np.shape(array)} for "
          f"{num_rows} rows."
        )
    parts = [outputs]
    if len(batch) > 1:
      ends = np.cumsum([waiting.num_rows for waiting in batch])
      parts = [
        {name: array[end - w.num_rows : end] for name, array in outputs.items()}
        for w, end in zip(batch, ends)
      ]
    return parts, time.monotonic() - start

  def _count(
    self, batch: Sequence[_Waiting], start: float, seconds: float
  ) -> None:
    self.num_batches += 1
    self.num_requests += len(batch)
    num_inputs = sum(waiting.num_inputs for waiting in batch)
    if batch[0].can_be_joined:
      # A full batch may take no longer than a single row. Counting each batch
      # as full avoids rejecting a burst of requests after a quiet time.
      num_inputs = max(num_inputs, self._config.max_batch_size)
    self._estimates.record(batch[0].name, num_inputs, seconds)
    num_rows = sum(waiting.num_rows for waiting in batch)
    waited_s = [start - waiting.arrived for waiting in batch]
    try:
      self._on_batch(Batch(num_rows, seconds, waited_s))
    except Exception:  # noqa: BLE001  The batch has been answered.
      logging.exception("A batch was not counted:")


def _fail(waiting: _Waiting, error: Exception) -> None:
  if not waiting.result.done():  # Done if the client has disconnected.
    waiting.result.set_exception(error)
