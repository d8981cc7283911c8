"""Tests that a fault fails only its batch, and serving continues."""

import asyncio
import threading
import time

import numpy as np
import pytest

from bert_tf.server import batching, workers
from bert_tf.server import config as server_config


def doubled(name, inputs, proceed=None):
  return {"y": 2 * inputs["x"]}


def run(
  scenario,
  compute=doubled,
  on_batch=lambda batch: None,
  max_wait_ms=0,
  num_batch_threads=1,
  **config,
):
  """Runs a coroutine function of a batcher and returns its result."""

  async def main():
    settings = server_config.ServerConfig(
      max_wait_ms=max_wait_ms, num_batch_threads=num_batch_threads, **config
    )
    batcher = batching.Batcher(compute, settings, on_batch)
    try:
      return await asyncio.wait_for(scenario(batcher), timeout=600)
    finally:
      await batcher.close()

  return asyncio.run(main())


def column(*values):
  return {"x": np.array(values)}


def raising(error):
  def compute(name, inputs, proceed):
    if -1 in inputs["x"]:
      raise error
    return doubled(name, inputs)

  return compute


def returning(outputs):
  def compute(name, inputs, proceed):
    return outputs if -1 in inputs["x"] else doubled(name, inputs)

  return compute


def gated(gate, value=None):
  """Returns a function that waits for the gate, if its input has the value."""

  def compute(name, inputs, proceed):
    if value is None or value in inputs["x"]:
      gate.wait(timeout=600)
    return doubled(name, inputs)

  return compute


def set_speed(batcher, seconds):
  """Makes the batcher expect that a row takes this many seconds."""
  for _ in range(batching.NUM_TIMED):
    batcher._estimates.record("f", 1, seconds)


FAULTS = {
  "memory": raising(MemoryError()),
  "value": raising(ValueError("wrong")),
  "cancelled": raising(asyncio.CancelledError()),
  "stop_iteration": raising(StopIteration()),
  "exit": raising(SystemExit(3)),
  "none": returning(None),
  "no_rows": returning({"y": np.array(5)}),
  "too_many_rows": returning({"y": np.zeros(9)}),
}


@pytest.mark.parametrize("compute", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_fails_only_its_own_request(compute):
  async def scenario(batcher):
    requests = [batcher.submit("f", column(value)) for value in (1, -1, 3)]
    results = await asyncio.gather(*requests, return_exceptions=True)
    again = await batcher.submit("f", column(4))
    return results, again

  (first, second, third), again = run(scenario, compute)
  assert (first["y"], third["y"], again["y"]) == ([2], [6], [8])
  assert isinstance(second, Exception)
  assert not isinstance(second, asyncio.CancelledError)


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError()])
def test_requests_are_answered_when_the_task_ends(error, monkeypatch):
  def take(batcher):
    raise error

  async def scenario(batcher):
    requests = [batcher.submit("f", column(value)) for value in (1, 2)]
    results = await asyncio.gather(*requests, return_exceptions=True)
    await batcher.ended.wait()
    with pytest.raises(batching.EndedError):
      await batcher.submit("f", column(3))
    return [type(result) for result in results]

  monkeypatch.setattr(batching.Batcher, "_take", take)
  assert run(scenario) == [batching.EndedError] * 2


def test_a_batch_has_no_rows_of_very_different_length():
  num_rows = []

  async def scenario(batcher):
    sizes = [20, 90, 400, 150, 700, 1500]
    requests = [batcher.submit("f", column(1), size) for size in sizes]
    await asyncio.gather(*requests)

  run(scenario, on_batch=lambda batch: num_rows.append(batch.num_rows))
  # 20 and 90 are both short; 400 and 700; 150; 1500.
  assert num_rows == [2, 2, 1, 1]


def test_a_batch_does_not_wait_for_another_one():
  gate = threading.Event()

  async def scenario(batcher):
    slow = asyncio.create_task(batcher.submit("f", column(-1)))
    while not batcher._threads[0].batch:
      await asyncio.sleep(0)
    results = [await batcher.submit("f", column(value)) for value in (1, 2)]
    assert not slow.done()
    gate.set()
    return [r["y"].tolist() for r in [*results, await slow]]

  assert run(scenario, gated(gate, -1), num_batch_threads=2) == [[2], [4], [-2]]


def test_a_thread_does_not_wait_for_a_batch_that_another_one_takes():
  async def scenario(batcher):
    await asyncio.gather(*(batcher.submit("f", column(i)) for i in range(2)))
    await asyncio.sleep(0.1)
    # Both threads are free, so two full batches start at once.
    requests = [batcher.submit("f", column(i)) for i in range(4)]
    await asyncio.wait_for(asyncio.gather(*requests), timeout=60)

  num_rows = []
  run(
    scenario,
    on_batch=lambda batch: num_rows.append(batch.num_rows),
    max_batch_size=2,
    max_wait_ms=300_000,
    num_batch_threads=2,
  )
  assert num_rows == [2, 2, 2]


def test_a_stalled_thread_leaves_requests_to_the_others():
  gate = threading.Event()

  async def scenario(batcher):
    with pytest.raises(workers.StalledError):
      await batcher.submit("f", column(-1))
    results = [await batcher.submit("f", column(value)) for value in range(9)]
    with pytest.raises(workers.StalledError):
      await batcher.submit("f", column(-1))
    with pytest.raises(workers.StalledError):  # No thread is left.
      await batcher.submit("f", column(9))
    gate.set()
    while any(worker.is_stalled() for worker in batcher.workers):
      await asyncio.sleep(0.01)
    results.append(await batcher.submit("f", column(9)))
    return [result["y"].item() for result in results]

  answers = run(scenario, gated(gate, -1), num_batch_threads=2, max_stall_s=0.5)
  assert answers == [2 * value for value in range(10)]


def test_requests_that_would_wait_too_long_are_refused():
  gate = threading.Event()

  async def scenario(batcher):
    set_speed(batcher, 0.5)
    tasks = []
    for value in range(3):
      tasks.append(asyncio.create_task(batcher.submit("f", column(value))))
      await asyncio.sleep(0.01)
    # The first is being computed and the second fills the next batch.
    finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    gate.set()
    assert finished == {tasks[2]}
    with pytest.raises(batching.OverloadedError) as caught:
      await tasks[2]
    results = await asyncio.gather(*tasks[:2])
    # The advice helps: later the queue has room.
    results.append(await batcher.submit("f", column(3)))
    return [result["y"].tolist() for result in results], caught.value

  results, error = run(
    scenario, gated(gate), max_batch_size=1, max_expected_wait_s=0.6
  )
  assert results == [[0], [2], [6]]
  assert error.retry_after_s == 1


def test_an_event_loop_that_is_late_refuses_requests_until_it_is_not():
  async def scenario(batcher):
    await asyncio.sleep(0.01)
    time.sleep(0.9)
    await asyncio.sleep(0.01)
    with pytest.raises(batching.OverloadedError) as caught:
      await batcher.submit("f", column(1))
    while batcher.expected_wait_s() > 0.3:
      await asyncio.sleep(0.01)
    result = await batcher.submit("f", column(2))
    return caught.value.retry_after_s, result["y"].tolist()

  assert run(scenario, max_expected_wait_s=0.3) == (1, [4])


def test_a_task_that_waits_for_a_full_batch_can_be_cancelled():
  async def scenario(batcher):
    requests = [asyncio.create_task(batcher.submit("f", column(0)))]
    await asyncio.sleep(0.05)  # Both tasks wait for a full batch.
    requests.append(asyncio.create_task(batcher.submit("f", column(1))))
    await asyncio.sleep(0)
    await asyncio.wait_for(batcher.close(), timeout=60)
    return await asyncio.gather(*requests, return_exceptions=True)

  results = run(scenario, max_wait_ms=300_000, num_batch_threads=2)
  assert [type(result) for result in results] == [batching.EndedError] * 2
