"""Computes requests that arrive together in one batch."""

import asyncio
import collections
import concurrent.futures
import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf.server import config as server_config

Arrays = Mapping[str, np.ndarray]


class QueueFullError(Exception):
  """The queue of waiting requests is full."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Waiting:
  """A waiting request."""

  key: Hashable  # Equal for requests that can be computed together.
  name: Hashable
  inputs: Arrays
  num_rows: int
  size: int  # Approximate length of the longest row.
  arrived: float  # Time of arrival, by time.monotonic.
  result: asyncio.Future  # The outputs, when they are computed.


class Batch(NamedTuple):
  """A batch that was computed."""

  num_rows: int
  seconds: float  # That it took.
  waited_s: list[float]  # Seconds that its requests had waited.


class Batcher:
  """Computes requests in batches, one after another, in a thread of its own.

  It belongs to one event loop. `compute` takes the name of a function and
  arrays with the same number of rows, and returns arrays with that number of
  rows. `on_batch` is called with each batch that was computed.
  """

  def __init__(
    self,
    compute: Callable[[Any, Arrays], Arrays],
    config: server_config.ServerConfig,
    on_batch: Callable[[Batch], None] = lambda batch: None,
  ) -> None:
    self._compute = compute
    self._on_batch = on_batch
    self._config = config
    self._waiting: collections.deque[_Waiting] = collections.deque()
    self._arrival = asyncio.Event()
    # One thread: TensorFlow uses all cores within a call.
    self._thread = concurrent.futures.ThreadPoolExecutor(1, "compute")
    self._task = asyncio.create_task(self._run())
    self.num_batches = self.num_requests = 0

  @property
  def num_waiting(self) -> int:
    """Number of requests that wait for a batch."""
    return len(self._waiting)

  async def run(self, call: Callable[[], None]) -> None:
    """Makes a call in the thread that computes."""
    await asyncio.get_running_loop().run_in_executor(self._thread, call)

  async def submit(
    self,
    name: Hashable,
    inputs: Arrays,
    size: int = 0,
    can_be_joined: bool = True,
  ) -> Arrays:
    """Returns the outputs of a request to a function.

    A batch is made of requests of like `size`, the approximate length of the
    longest row, that can be joined.

    Raises:
      QueueFullError: if too many wait already.
      Exception: what the computation raises for this request.
    """
    if len(self._waiting) >= self._config.max_queue_size:
      raise QueueFullError(
        f"{len(self._waiting)} requests are waiting, the most that may; try "
        "again later."
      )
    # Rows of other shapes would need padding.
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
    try:
      return await waiting.result
    except asyncio.CancelledError:  # Its place is free for another.
      if waiting in self._waiting:
        self._waiting.remove(waiting)
      raise

  async def close(self) -> None:
    """Stops; waiting requests are cancelled."""
    self._task.cancel()
    await asyncio.gather(self._task, return_exceptions=True)
    for waiting in self._waiting:
      waiting.result.cancel()
    self._thread.shutdown(wait=False, cancel_futures=True)

  async def _run(self) -> None:
    """Computes waiting requests, batch after batch."""
    while True:
      while not self._waiting:
        self._arrival.clear()
        await self._arrival.wait()
      await self._wait_for_batch(self._waiting[0])
      batch = self._take()
      if batch:
        await self._answer(batch)

  async def _wait_for_batch(self, first: _Waiting) -> None:
    """Waits until a batch is full or its first request may wait no longer."""
    end = first.arrived + self._config.max_wait_ms / 1e3
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
    """Returns the number of waiting rows that can be computed together."""
    return sum(w.num_rows for w in self._waiting if w.key == key)

  def _take(self) -> list[_Waiting]:
    """Removes the next batch from the queue and returns it.

    It has the request that has waited longest, and those nearest to its size,
    because all rows are padded to the longest.
    """
    # Clients may have disconnected.
    waiting = [w for w in self._waiting if not w.result.cancelled()]
    batch, room = [], self._config.max_batch_size
    for candidate in sorted(
      waiting, key=lambda w: abs(w.size - waiting[0].size)
    ):
      # The first is taken even if it is larger than a batch.
      fits = candidate.num_rows <= room or candidate is waiting[0]
      if candidate.key == waiting[0].key and fits:
        batch.append(candidate)
        room -= candidate.num_rows
    taken = set(batch)
    self._waiting = collections.deque(w for w in waiting if w not in taken)
    return batch

  async def _answer(self, batch: Sequence[_Waiting]) -> None:
    """Computes a batch; if that fails, each of its requests alone."""
    if all(waiting.result.done() for waiting in batch):
      return
    inputs = {
      name: np.concatenate([waiting.inputs[name] for waiting in batch])
      for name in batch[0].inputs
    }
    loop = asyncio.get_running_loop()
    start = time.monotonic()
    try:
      outputs = await loop.run_in_executor(
        self._thread, self._compute, batch[0].name, inputs
      )
    except Exception as error:  # noqa: BLE001  Raised in `submit`.
      if len(batch) > 1:
        for waiting in batch:
          await self._answer([waiting])
      elif not batch[0].result.done():
        batch[0].result.set_exception(error)
      return
    self.num_batches += 1
    self.num_requests += len(batch)
    num_rows = sum(waiting.num_rows for waiting in batch)
    waited_s = [start - waiting.arrived for waiting in batch]
    self._on_batch(Batch(num_rows, time.monotonic() - start, waited_s))
    if len(batch) == 1:
      _set(batch[0], outputs)
      return
    first = 0
    for waiting in batch:
      rows = slice(first, first + waiting.num_rows)
      _set(waiting, {name: array[rows] for name, array in outputs.items()})
      first += waiting.num_rows


def _set(waiting: _Waiting, outputs: Arrays) -> None:
  if not waiting.result.done():  # Done if the client has disconnected.
    waiting.result.set_result(outputs)
