"""Tests that a fault fails only its batch, and serving continues."""

import asyncio
import threading

import pytest

from bert_tf.server import batching, limits
from bert_tf.server.config import ServerConfig
from bert_tf.tasks import base


class Doubling:
  """Doubles numbers; its batches hold `max_size` of them.

  Args:
    fault: called with the numbers of each batch; the outputs are what it
      returns, unless it returns None.
    size: returns the size of a number.
  """

  def __init__(self, fault=lambda values: None, size=lambda _: 1, max_size=16):
    self.size = size
    self.max_size = max_size
    self.batches = []
    self._fault = fault

  def compute(self, values):
    self.batches.append(list(values))
    outputs = self._fault(values)
    return [2 * value for value in values] if outputs is None else outputs

  def postprocess(self, inputs, outputs):
    return outputs[0] if len(outputs) == 1 else outputs


def row(*values):
  return base.Inputs(values)


def rows(*values):
  return [row(value) for value in values]


def run(scenario, **config):
  """Runs a coroutine function of a batcher and returns its result."""

  async def main():
    settings = {"max_wait_ms": 0, "num_batch_threads": 1, **config}
    batcher = batching.Batcher(ServerConfig(**settings))
    try:
      return await asyncio.wait_for(scenario(batcher), timeout=600)
    finally:
      await batcher.close()

  return asyncio.run(main())


def refused():
  return pytest.raises(limits.HttpError, match="503")


@pytest.mark.parametrize(
  "fault",
  [
    *(ValueError("wrong"), asyncio.CancelledError(), StopIteration()),
    *(SystemExit(3), [0] * 9),
  ],
  ids=repr,
)
def test_a_fault_fails_only_its_own_request(fault):
  def fail(values):
    if -1 in values and isinstance(fault, BaseException):
      raise fault
    return fault if -1 in values else None

  function = Doubling(fail)

  async def scenario(batcher):
    requests = [batcher.submit(function, rows(value)) for value in (1, -1, 3)]
    results = await asyncio.gather(*requests, return_exceptions=True)
    again = await batcher.submit(function, rows(4))
    return results, again

  (first, second, third), again = run(scenario)
  assert (first, third, again) == ([2], [6], [8])
  assert isinstance(second, Exception)
  assert not isinstance(second, asyncio.CancelledError)


def test_a_batch_has_inputs_of_similar_size_within_its_limit():
  function = Doubling(size=lambda value: value, max_size=1600)

  async def scenario(batcher):
    sizes = [5, 20, 90, 400, 150, 700, 1500, 500]
    requests = [batcher.submit(function, rows(size)) for size in sizes]
    await asyncio.gather(*requests)

  run(scenario)
  # 5 and 20 are both short; 700 would be padded by more than 1600.
  assert function.batches == [[5, 20], [90, 150], [400, 500], [700], [1500]]


def test_a_large_request_lets_others_in_between():
  function = Doubling(max_size=2)

  async def scenario(batcher):
    large = batcher.submit(function, [row(1, 2, 3), row(), *rows(4, 5, 6)])
    small = [batcher.submit(function, rows(value)) for value in (7, 8, 9)]
    return await asyncio.gather(large, *small)

  large, *small = run(scenario)
  assert large == [[2, 4, 6], [], 8, 10, 12]
  assert small == [[14], [16], [18]]
  assert function.batches == [[1, 2], [7, 8], [9, 3], [4, 5], [6]]


def test_a_thread_does_not_wait_for_a_batch_that_another_one_takes():
  function = Doubling(max_size=2)

  async def scenario(batcher):
    await asyncio.gather(*(batcher.submit(function, rows(i)) for i in range(2)))
    await asyncio.sleep(0.1)
    # Both threads are free, so two full batches start at once.
    requests = [batcher.submit(function, rows(i)) for i in range(4)]
    await asyncio.wait_for(asyncio.gather(*requests), timeout=60)

  run(scenario, max_wait_ms=300_000, num_batch_threads=2)
  assert [len(batch) for batch in function.batches] == [2, 2, 2]


def test_a_stalled_thread_leaves_requests_to_the_others():
  gate = threading.Event()

  def wait(values):
    if -1 in values:
      gate.wait(timeout=600)

  function = Doubling(wait)

  async def scenario(batcher):
    with refused():
      await batcher.submit(function, rows(-1))
    results = [
      await batcher.submit(function, rows(value)) for value in range(9)
    ]
    with refused():
      await batcher.submit(function, rows(-1))
    with refused():  # No thread is left.
      await batcher.submit(function, rows(9))
    gate.set()
    while any(worker.is_stalled() for worker in batcher.workers):
      await asyncio.sleep(0.01)
    results.append(await batcher.submit(function, rows(9)))
    return results

  answers = run(scenario, num_batch_threads=2, max_stall_s=0.5)
  assert answers == [[2 * value] for value in range(10)]


def test_a_task_that_waits_for_a_full_batch_can_be_cancelled():
  function = Doubling()

  async def scenario(batcher):
    requests = [asyncio.create_task(batcher.submit(function, rows(0)))]
    await asyncio.sleep(0.05)  # Both tasks wait for a full batch.
    requests.append(asyncio.create_task(batcher.submit(function, rows(1))))
    await asyncio.sleep(0)
    await asyncio.wait_for(batcher.close(), timeout=60)
    return await asyncio.gather(*requests, return_exceptions=True)

  results = run(scenario, max_wait_ms=300_000, num_batch_threads=2)
  assert [result.status_code for result in results] == [503] * 2
