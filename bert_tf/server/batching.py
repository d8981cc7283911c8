"""Computes the inputs of waiting requests in batches.

A request has rows, and a row has inputs: a text, its windows, or its choices.
The inputs of all requests wait in one queue. A batch takes inputs of similar
size and the same signature, those of the oldest request first. If that request
has more, it goes to the end of the queue, so that others need not wait for it.

Each thread has a task that takes batches from the queue. If a batch raises, its
inputs are computed one by one, and only requests whose inputs raise again fail.
A thread that has stalled takes no batches; if all have, every request fails.
"""

import asyncio
import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import math
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from absl import logging

from bert_tf.inference.rows import RowAnswers
from bert_tf.server.config import ServerConfig
from bert_tf.server.limits import HttpError
from bert_tf.server.models import Signature
from bert_tf.tasks import base

_Result = TypeVar("_Result")

# Inputs of a batch are at most _MAX_RATIO times as large as its first one, or
# all smaller than _SHORT_SIZE, where a batch of one costs more than padding.
_MAX_RATIO, _SHORT_SIZE = 2, 32


@dataclasses.dataclass(eq=False)
class _Request:
  signature: Signature
  answers: RowAnswers[Any]
  result: asyncio.Future  # Done when all rows have answers.
  arrived: float  # Time of arrival by time.monotonic.
  waiting: list["_Input"] = dataclasses.field(default_factory=list)
  num_values: int = 0  # In the answers.
  # For the answers: several threads may compute inputs of the request.
  lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

  def fail(self, error: BaseException) -> None:
    """Raises an error in `submit`, unless the client has disconnected."""
    if not self.result.done():
      self.result.set_exception(_awaitable(error))


@dataclasses.dataclass(eq=False)
class _Input:
  request: _Request
  row: int
  number: int  # Index among the inputs of its row.
  value: base.ModelInput
  size: int


class Worker:
  """Makes calls in a thread, one after the other.

  A call in a thread cannot be stopped. If it takes more than `max_call_s`, the
  worker has stalled: waiting calls fail with status 503, and so do new ones
  until it returns. The thread is a daemon, so a stalled call does not keep the
  process from ending.
  """

  def __init__(self, name: str, max_call_s: float) -> None:
    self._name = name
    self._max_call_s = max_call_s
    # Functions, each with the future of its result; None ends the thread.
    self._calls: queue.SimpleQueue = queue.SimpleQueue()
    # By time.monotonic, of the current call and of the last stall in the log.
    self._deadline = self._logged = math.inf
    self._thread = threading.Thread(target=self._run, name=name, daemon=True)
    self._thread.start()

  async def run(
    self, function: Callable[..., _Result], *arguments: Any
  ) -> _Result:
    """Makes a call in the thread; returns its result or raises its exception.

    If the waiting coroutine is cancelled before the call has begun, the call is
    not made. Exceptions that cannot be awaited become a RuntimeError.
    """
    future: concurrent.futures.Future = concurrent.futures.Future()
    self._calls.put((functools.partial(function, *arguments), future))
    outcome = asyncio.wrap_future(future)
    try:
      while not outcome.done():
        self.check()
        left = self._deadline - time.monotonic()
        await asyncio.wait([outcome], timeout=min(left, self._max_call_s))
    finally:
      outcome.cancel()
    return outcome.result()

  def is_stalled(self) -> bool:
    """Whether a call has exceeded its limit."""
    return time.monotonic() >= self._deadline

  def check(self) -> None:
    """Raises HttpError 503 if the thread has stalled; logs its stack once."""
    if not self.is_stalled():
      return
    message = (
      f"the {self._name} thread has not answered for {self._max_call_s:g} s; "
      "try again later."
    )
    if self._logged != self._deadline:  # Once for each stall.
      self._logged = self._deadline
      frame = sys._current_frames()[self._thread.ident or 0]
      stack = traceback.format_stack(frame)
      advice = "Raise max_stall_s if calls may take so long. The thread is at:"
      logging.error("%s %s\n%s", message, advice, "".join(stack))
    raise HttpError(503, message)

  def close(self) -> None:
    """Ends the thread after the queued calls, without waiting for them."""
    self._calls.put(None)

  def _run(self) -> None:
    while call := self._calls.get():
      function, future = call
      if future.set_running_or_notify_cancel():
        self._deadline = time.monotonic() + self._max_call_s
        try:
          future.set_result(function())
        except BaseException as error:  # noqa: BLE001  Raised by `run`.
          future.set_exception(_awaitable(error))
        self._deadline = math.inf


class Batcher:
  """Computes requests in batches, in its own threads.

  TensorFlow uses all cores within a call, but not all the time, and a short
  text need not wait for a batch of long ones. A batcher belongs to the event
  loop in which it is created.

  `on_batch` receives the number of inputs and the seconds of each batch.

  Attributes:
    queue: requests with inputs in no batch yet.
    workers: the threads that compute.
  """

  def __init__(
    self,
    config: ServerConfig,
    on_batch: Callable[[int, float], None] = lambda *_: None,
  ) -> None:
    self._on_batch = on_batch
    self._config = config
    self.queue: collections.deque[_Request] = collections.deque()
    self._open: set[_Request] = set()  # Those without a result.
    self._arrival = asyncio.Event()
    self.workers = [
      Worker("compute", config.max_stall_s)
      for _ in range(config.num_batch_threads)
    ]
    self._tasks = [asyncio.create_task(self._run(w)) for w in self.workers]

  async def submit(
    self, signature: Signature, rows: Sequence[base.Inputs]
  ) -> list[Any]:
    """Returns the answers of a request's rows, or raises what computing raised.

    Raises HttpError if the answers have too many values, or all threads have
    stalled.
    """
    result = asyncio.get_running_loop().create_future()
    answers = RowAnswers(rows, signature.postprocess)
    request = _Request(signature, answers, result, time.monotonic())
    for index, row in enumerate(rows):
      for number, value in enumerate(row.sequences):
        size = signature.size(value)
        request.waiting.append(_Input(request, index, number, value, size))
    if request.waiting:
      self._open.add(request)
      self.queue.append(request)
      self._arrival.set()
      try:
        await result
      finally:  # The client may have disconnected.
        self._open.remove(request)
        if request in self.queue:
          self.queue.remove(request)
    return answers.in_order()

  async def close(self) -> None:
    """Stops the batcher; waiting requests fail with status 503."""
    for task in self._tasks:
      task.cancel()
    await asyncio.gather(*self._tasks, return_exceptions=True)
    self._fail_all(HttpError(503, "the server ended before it could answer."))
    for worker in self.workers:
      worker.close()

  def _fail_all(self, error: Exception) -> None:
    for request in self._open:
      request.fail(error)
    self.queue.clear()

  async def _run(self, worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    while True:
      self._arrival.clear()
      seconds = self._seconds_to_batch(worker)
      if seconds > 0:
        timer = loop.call_later(seconds, self._arrival.set)
        await self._arrival.wait()
        timer.cancel()
        continue
      try:
        await self._answer(worker, self._take())
      except Exception as error:  # noqa: BLE001  Raised in `submit`.
        self._fail_all(error)

  def _seconds_to_batch(self, worker: Worker) -> float:
    """Returns after how many seconds a thread looks again, unless woken."""
    if not self.queue:
      return math.inf
    # A thread that has stalled takes no batches, unless all have.
    if worker.is_stalled() and not all(w.is_stalled() for w in self.workers):
      return 0.05
    signature = self.queue[0].signature
    waiting = self._waiting(signature)
    is_full = sum(each.size for each in waiting) >= signature.max_size
    if is_full or len(waiting) >= self._config.max_batch_size:
      return 0
    until = self.queue[0].arrived + self._config.max_wait_ms / 1e3
    return until - time.monotonic()

  def _waiting(self, signature: Signature) -> list[_Input]:
    same = (r.waiting for r in self.queue if r.signature is signature)
    return [*itertools.chain.from_iterable(same)]

  def _take(self) -> list[_Input]:
    """Removes the next batch from the queue and returns it.

    It begins with the largest input of the request that has waited longest.
    Other inputs, first of this request and then of others, fill it by their
    similarity in size, because all are padded to the largest.
    """
    first = self.queue[0]
    max_size = first.signature.max_size
    target = max(each.size for each in first.waiting)
    smallest = 0 if target <= _SHORT_SIZE else target / _MAX_RATIO
    largest = max(_MAX_RATIO * target, _SHORT_SIZE)
    candidates = [
      each
      for each in self._waiting(first.signature)
      if smallest <= each.size <= largest
    ]
    candidates.sort(
      key=lambda c: (c.request is not first, abs(c.size - target))
    )
    batch: list[_Input] = []
    width = 0
    for each in candidates:
      wider = max(width, each.size)
      # More short texts would gain nothing together, and all would wait for the
      # last one. The first input is included even if it exceeds a batch.
      has_room = len(batch) < self._config.max_batch_size
      if not batch or (has_room and (len(batch) + 1) * wider <= max_size):
        batch.append(each)
        width = wider
    taken = set(batch)
    for request in {each.request for each in batch}:
      request.waiting = [each for each in request.waiting if each not in taken]
      if request is first or not request.waiting:
        self.queue.remove(request)
    if first.waiting:
      self.queue.append(first)
    return batch

  async def _answer(self, worker: Worker, batch: Sequence[_Input]) -> None:
    # A result is done if its client has disconnected, or an input has failed.
    batch = [each for each in batch if not each.request.result.done()]
    if not batch:
      return
    try:
      seconds = await worker.run(self._compute, batch)
    except Exception as error:  # noqa: BLE001  Raised in `submit`.
      if len(batch) == 1:
        batch[0].request.fail(error)
        return
      for each in batch:
        await self._answer(worker, [each])
      return
    for request in {each.request for each in batch}:
      if request.answers.are_complete() and not request.result.done():
        request.result.set_result(None)
    self._on_batch(len(batch), seconds)

  def _compute(self, batch: Sequence[_Input]) -> float:
    """Computes a batch, and answers the rows whose inputs are all computed.

    Returns the seconds of the computation. Runs in a thread.
    """
    signature = batch[0].request.signature
    start = time.monotonic()
    outputs = signature.compute([each.value for each in batch])
    pairs = [*zip(batch, outputs, strict=True)]
    seconds = time.monotonic() - start
    limit = self._config.max_answer_values
    for each, output in pairs:
      request = each.request
      try:
        with request.lock:
          answer = request.answers.add(each.row, each.number, output)
          if answer is not None:
            request.num_values += count_values(answer)
        if request.num_values > limit:
          raise HttpError(
            413,
            f"the answer has at least {request.num_values} numbers and texts, "
            f"but this server's limit is {limit}; send fewer or shorter rows.",
          )
      except Exception as error:  # noqa: BLE001  Raised in `submit`.
        loop = request.result.get_loop()
        loop.call_soon_threadsafe(request.fail, error)
    return seconds


def count_values(value: Any) -> int:
  """Counts the numbers and texts in JSON."""
  if isinstance(value, dict):
    return sum(map(count_values, value.values()))
  if not isinstance(value, list):
    return 1
  if value and isinstance(value[0], dict | list):
    return sum(map(count_values, value))
  return len(value)


def _awaitable(error: BaseException) -> Exception:
  if isinstance(error, Exception) and not isinstance(error, StopIteration):
    return error
  converted = RuntimeError(f"{type(error).__name__} in a thread: {error}")
  converted.__cause__ = error
  return converted
