"""Calls in a thread that always end for the coroutine that awaits them."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


async def run(
  executor: concurrent.futures.Executor,
  call: Callable[..., _Result],
  *arguments: Any,
) -> _Result:
  """Makes a call in a thread of an executor and returns its result.

  A future cannot carry every exception: StopIteration leaves its waiter waiting
  forever, and CancelledError looks as if the waiter itself were cancelled.
  Both, and exceptions that would end the process, become a RuntimeError.

  Args:
    executor: whose thread makes the call.
    call: the function to call.
    *arguments: of the call.

  Raises:
    Exception: the exception of the call.
    RuntimeError: for an exception that a future cannot carry.
  """
  results: list[_Result] = []

  def attempt() -> BaseException | None:
    try:
      results.append(call(*arguments))
    except BaseException as error:  # noqa: BLE001  Raised below.
      return error
    return None

  loop = asyncio.get_running_loop()
  error = await loop.run_in_executor(executor, attempt)
  if isinstance(error, Exception) and not isinstance(error, StopIteration):
    raise error
  if error is not None:
    raise RuntimeError(
      f"{type(error).__name__} in a thread: {error}"
    ) from error
  return results[0]
