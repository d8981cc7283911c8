"""Threads that run the stages of requests, with a time limit per call.

A call in a thread cannot be stopped. If a call takes too long, its worker has
stalled. All calls that wait for the worker then raise StalledError, and so do
new calls until the call in the thread returns. Liveness checks fail meanwhile.
"""

import asyncio
import concurrent.futures
import functools
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from absl import logging

_Result = TypeVar("_Result")


class StalledError(Exception):
  """A stage of the server takes longer than allowed."""


class _Call(NamedTuple):
  function: Callable[[], Any]
  # Receives (result, None) or (None, exception).
  outcome: concurrent.futures.Future


class Worker:
  """Makes calls in a thread, one after the other.

  The thread is a daemon, so that a stalled call does not keep the process from
  ending.

  Args:
    name: name of the stage, for messages.
    max_call_s: maximum seconds of a call, or between two calls of `report`.
  """

  def __init__(self, name: str, max_call_s: float) -> None:
    self._name = name
    self._max_call_s = max_call_s
    self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
    # Start of the current call by time.monotonic; None between calls.
    self._started: float | None = None
    # `_started` of the last stall that was logged.
    self._logged: float | None = 0.0
    self._thread = threading.Thread(target=self._run, name=name, daemon=True)
    self._thread.start()

  async def run(
    self, function: Callable[..., _Result], *arguments: Any
  ) -> _Result:
    """Makes a call in the thread and returns its result.

    If the waiting coroutine is cancelled before the call has begun, the call is
    not made. StopIteration and CancelledError, which cannot be awaited, and
    exceptions that would end the process become a RuntimeError.

    Raises:
      StalledError: if the thread has stalled.
      Exception: the exception of the call.
      RuntimeError: for an exception that cannot be awaited.
    """
    call = _Call(
      functools.partial(function, *arguments), concurrent.futures.Future()
    )
    self._calls.put(call)
    outcome = asyncio.wrap_future(call.outcome)
    try:
      while not outcome.done():
        self.check()
        await asyncio.wait([outcome], timeout=self._seconds_left())
    finally:
      outcome.cancel()
    result, error = outcome.result()
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
      raise error
    if error is not None:
      raise RuntimeError(
        f"{type(error).__name__} in a thread: {error}"
      ) from error
    return result

  def report(self) -> None:
    """Reports progress from within a call, which restarts its time limit."""
    self._started = time.monotonic()

  def is_stalled(self) -> bool:
    """Returns whether a call has exceeded its limit or the thread has ended."""
    return not self._thread.is_alive() or self._seconds_left() <= 0

  def check(self) -> None:
    """Raises StalledError if the thread has stalled; logs its stack once."""
    if not self.is_stalled():
      return
    message = (
      f"the {self._name} thread has not returned for more than "
      f"{self._max_call_s:g} s; try again later."
    )
    if self._logged != self._started:  # Once for each stall.
      self._logged = self._started
      frame = sys._current_frames().get(self._thread.ident or 0)
      stack = traceback.format_stack(frame) if frame else ["It has ended."]
      advice = "Raise max_stall_s if a call may take as long. The thread is at:"
      logging.error("%s %s\n%s", message, advice, "".join(stack))
    raise StalledError(message)

  def close(self) -> None:
    """Ends the thread after the queued calls, without waiting for them."""
    self._calls.put(None)

  def _seconds_left(self) -> float:
    started = self._started
    now = time.monotonic()
    return (now if started is None else started) + self._max_call_s - now

  def _run(self) -> None:
    while call := self._calls.get():
      if call.outcome.set_running_or_notify_cancel():
        self._started = time.monotonic()
        outcome: tuple[Any, BaseException | None]
        try:
          outcome = call.function(), None
        except BaseException as error:  # noqa: BLE001  Raised by `run`.
          outcome = None, error
        self._started = None
        call.outcome.set_result(outcome)
