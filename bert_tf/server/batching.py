"""Requests that arrive together are computed together."""

import asyncio
import collections
import concurrent.futures
import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

Arrays = Mapping[str, np.ndarray]


class QueueFullError(Exception):
  """As many requests wait as may."""


@dataclasses.dataclass(frozen=True)
class BatchConfig:
  """How requests are put together.

  Attributes:
    max_batch_size: rows of a call; a request that has more is computed alone.
    max_wait_s: how long the first of a batch waits for others, in seconds.
    max_queue_size: requests that may wait.
  """

  max_batch_size: int
  max_wait_s: float
  max_queue_size: int

  def __post_init__(self):
    for name, least in (
      ("max_batch_size", 1),
      ("max_wait_s", 0),
      ("max_queue_size", 1),
    ):
      if getattr(self, name) < least:
        raise ValueError(f"{name} {getattr(self, name)} is below {least}.")


@dataclasses.dataclass(frozen=True, eq=False)
class _Waiting:
  """A request that waits.

  Attributes:
    key: equal where requests can be computed together.
    name: of the function.
    inputs: arrays of its rows.
    num_rows: how many.
    size: about how long the longest is.
    arrived: when, by time.monotonic.
    result: its outputs, once they are there.
  """

  key: Hashable
  name: str
  inputs: Arrays
  num_rows: int
  size: int
  arrived: float
  result: asyncio.Future


class Batcher:
  """Computes requests in batches, one after another, in a thread of its own.

  Made and used in one event loop.

  Args:
    compute: called with the name of a function and arrays of equally many
      rows; returns arrays of as many.
    config: how requests are put together.

  Attributes:
    num_batches: how many were computed.
    num_requests: how many requests were in them.
  """

  def __init__(
    self, compute: Callable[[str, Arrays], Arrays], config: BatchConfig
  ) -> None:
    self._compute = compute
    self._config = config
    self._waiting: collections.deque[_Waiting] = collections.deque()
    self._arrival = asyncio.Event()
    # One thread: TensorFlow uses all cores within a call.
    self._thread = concurrent.futures.ThreadPoolExecutor(1, "compute")
    self._task = asyncio.create_task(self._run())
    self.num_batches = self.num_requests = 0

  async def submit(
    self,
    name: str,
    inputs: Arrays,
    size: int = 0,
    can_be_joined: bool = True,
  ) -> Arrays:
    """Returns the outputs of a request.

    Args:
      name: of the function.
      inputs: its arrays.
      size: about how long the longest row is; where more wait than are
        computed together, those are that are about as long.
      can_be_joined: whether its rows may stand in a batch with others'.

    Raises:
      QueueFullError: if too many wait already.
      Exception: what the computation raises for this request.
    """
    if len(self._waiting) >= self._config.max_queue_size:
      raise QueueFullError(
        f"{len(self._waiting)} requests are waiting, the most that may; try "
        "again later."
      )
    # Rows of other sizes would have to be filled up.
    sizes = tuple((key, array.shape[1:]) for key, array in inputs.items())
    waiting = _Waiting(
      (name, sizes) if can_be_joined else object(),
      name,
      inputs,
      len(next(iter(inputs.values()))),
      size,
      time.monotonic(),
      asyncio.get_running_loop().create_future(),
    )
    self._waiting.append(waiting)
    self._arrival.set()
    return await waiting.result

  async def close(self) -> None:
    """Ends; who still waits is cancelled."""
    self._task.cancel()
    await asyncio.gather(self._task, return_exceptions=True)
    for waiting in self._waiting:
      waiting.result.cancel()
    self._thread.shutdown(wait=False, cancel_futures=True)

  async def _run(self) -> None:
    """Takes what waits, batch after batch."""
    while True:
      while not self._waiting:
        self._arrival.clear()
        await self._arrival.wait()
      await self._wait_for_batch(self._waiting[0])
      batch = self._take()
      if batch:
        await self._answer(batch)

  async def _wait_for_batch(self, first: _Waiting) -> None:
    """Waits until a batch is full or its first request has waited enough."""
    end = first.arrived + self._config.max_wait_s
    while self._num_rows(first.key) < self._config.max_batch_size:
      remaining = end - time.monotonic()
      if remaining <= 0:
        return
      self._arrival.clear()
      try:
        await asyncio.wait_for(self._arrival.wait(), remaining)
      except asyncio.TimeoutError:
        return

  def _num_rows(self, key: Hashable) -> int:
    """Returns how many rows wait that can be computed together."""
    return sum(w.num_rows for w in self._waiting if w.key == key)

  def _take(self) -> list[_Waiting]:
    """Returns the next batch, which waits no longer.

    That is the request that has waited longest, and those with it that are
    nearest to its size: all are filled up to the longest.
    """
    # Some who asked have gone.
    waiting = [w for w in self._waiting if not w.result.cancelled()]
    batch, room = [], self._config.max_batch_size
    for candidate in sorted(
      waiting, key=lambda w: abs(w.size - waiting[0].size)
    ):
      # The first is taken whatever its size.
      fits = candidate.num_rows <= room or candidate is waiting[0]
      if candidate.key == waiting[0].key and fits:
        batch.append(candidate)
        room -= candidate.num_rows
    taken = set(batch)
    self._waiting = collections.deque(w for w in waiting if w not in taken)
    return batch

  async def _answer(self, batch: Sequence[_Waiting]) -> None:
    """Computes a batch; if it fails, each of its requests by itself."""
    if all(waiting.result.done() for waiting in batch):
      return
    inputs = {
      name: np.concatenate([waiting.inputs[name] for waiting in batch])
      for name in batch[0].inputs
    }
    loop = asyncio.get_running_loop()
    try:
      outputs = await loop.run_in_executor(
        self._thread, self._compute, batch[0].name, inputs
      )
    except Exception as error:  # noqa: BLE001  Raised where it was asked for.
      if len(batch) > 1:
        for waiting in batch:
          await self._answer([waiting])
      elif not batch[0].result.done():
        batch[0].result.set_exception(error)
      return
    self.num_batches += 1
    self.num_requests += len(batch)
    if len(batch) == 1:
      _set(batch[0], outputs)
      return
    first = 0
    for waiting in batch:
      rows = slice(first, first + waiting.num_rows)
      _set(waiting, {name: array[rows] for name, array in outputs.items()})
      first += waiting.num_rows


def _set(waiting: _Waiting, outputs: Arrays) -> None:
  if not waiting.result.done():  # It is, if who asked has gone.
    waiting.result.set_result(outputs)
