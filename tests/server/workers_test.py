"""Tests for threads whose calls may fail or stall."""

import asyncio
import threading
import time

import pytest

from bert_tf.server import workers


def run(scenario, max_call_s=600.0):
  """Runs a coroutine function of a worker and returns its result."""

  async def main():
    worker = workers.Worker("tested", max_call_s)
    try:
      return await asyncio.wait_for(scenario(worker), timeout=600)
    finally:
      worker.close()

  return asyncio.run(main())


def test_all_who_wait_for_a_stalled_call_get_an_error_until_it_returns(caplog):
  gate = threading.Event()

  async def scenario(worker):
    calls = [worker.run(gate.wait, 600), *(worker.run(int) for _ in range(2))]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    with pytest.raises(workers.StalledError):
      worker.check()
    with pytest.raises(workers.StalledError):
      await worker.run(int)
    gate.set()
    while worker.is_stalled():
      await asyncio.sleep(0)
    return errors, await worker.run(int, "5")

  errors, after = run(scenario, max_call_s=0.1)
  assert [type(error) for error in errors] == [workers.StalledError] * 3
  assert after == 5
  assert "gate.wait" not in caplog.text  # The call has no line of its own.
  assert "threading.py" in caplog.text


def test_a_call_that_reports_progress_has_not_stalled():
  def count(worker):
    for _ in range(10):
      time.sleep(0.05)
      worker.report()
    return "counted"

  async def scenario(worker):
    return await worker.run(count, worker)

  assert run(scenario, max_call_s=0.4) == "counted"
