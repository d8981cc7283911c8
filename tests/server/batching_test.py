"""Tests that a fault fails only its batch, and serving continues."""

import asyncio
import concurrent.futures
import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from bert_tf.server import application, batching, guard
from bert_tf.server import config as server_config
from tests.support import checkout, fake_model, serving_client
from tests.support.serving_client import ask

PREDICT = fake_model.PREDICT


def doubled(name, inputs):
  return {"y": 2 * inputs["x"]}


def run(scenario, compute=doubled, on_batch=lambda batch: None, **config):
  """Runs a coroutine function of a batcher and returns its result."""

  async def main():
    settings = server_config.ServerConfig(max_wait_ms=0, **config)
    batcher = batching.Batcher(compute, settings, on_batch)
    try:
      return await asyncio.wait_for(scenario(batcher), timeout=600)
    finally:
      await batcher.close()

  return asyncio.run(main())


def column(*values):
  return {"x": np.array(values)}


def raising(error):
  def compute(name, inputs):
    if -1 in inputs["x"]:
      raise error
    return doubled(name, inputs)

  return compute


def returning(outputs):
  def compute(name, inputs):
    return outputs if -1 in inputs["x"] else doubled(name, inputs)

  return compute


FAULTS = {
  "memory": raising(MemoryError()),
  "value": raising(ValueError("wrong")),
  "cancelled": raising(asyncio.CancelledError()),
  "cancelled_in_thread": raising(concurrent.futures.CancelledError()),
  "stop_iteration": raising(StopIteration()),
  "exit": raising(SystemExit(3)),
  "interrupt": raising(KeyboardInterrupt()),
  "none": returning(None),
  "no_outputs": returning({}),
  "no_rows": returning({"y": np.array(5)}),
  "too_few_rows": returning({"y": np.zeros(0)}),
  "too_many_rows": returning({"y": np.zeros(9)}),
  "no_array": returning({"y": None}),
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


def test_requests_are_computed_separately_if_joining_fails(monkeypatch):
  def concatenate(arrays):
    raise MemoryError

  async def scenario(batcher):
    return await asyncio.gather(
      *(batcher.submit("f", column(value)) for value in (1, 2))
    )

  monkeypatch.setattr(batching.np, "concatenate", concatenate)
  first, second = run(scenario)
  assert (first["y"], second["y"]) == ([2], [4])


def test_a_fault_of_the_callback_does_not_fail_requests():
  def on_batch(batch):
    raise RuntimeError("not counted")

  async def scenario(batcher):
    results = [await batcher.submit("f", column(value)) for value in (1, 2)]
    return [result["y"].tolist() for result in results]

  assert run(scenario, on_batch=on_batch) == [[2], [4]]


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


def test_a_cancelled_request_is_not_computed():
  gate, calls = threading.Event(), []

  def compute(name, inputs):
    calls.append(inputs["x"].tolist())
    gate.wait(timeout=600)
    return doubled(name, inputs)

  async def scenario(batcher):
    first = asyncio.create_task(batcher.submit("f", column(1)))
    while not calls:
      await asyncio.sleep(0)
    left = asyncio.create_task(batcher.submit("f", column(2)))
    await asyncio.sleep(0)
    left.cancel()
    gate.set()
    await first
    await batcher.submit("f", column(3))

  run(scenario, compute)
  assert calls == [[1], [3]]


def test_requests_that_would_wait_too_long_are_refused():
  gate = threading.Event()
  gate.set()

  def compute(name, inputs):
    gate.wait(timeout=600)
    return doubled(name, inputs)

  async def scenario(batcher):
    for _ in range(batching._NUM_TIMED):
      await batcher.submit("f", column(0))
    timed = batcher._timed["f"]
    timed.extend([0.5 for _ in timed])  # A row takes half a second.
    gate.clear()
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
    scenario, compute, max_batch_size=1, max_expected_wait_s=0.6
  )
  assert results == [[0], [2], [6]]
  assert error.retry_after_s == 1


def test_the_speed_of_partial_batches_counts_as_of_full_ones():
  async def scenario(batcher):
    for _ in range(batching._NUM_TIMED):
      await batcher.submit("f", column(0))
    return list(batcher._timed["f"])

  seconds = []
  timed = run(
    scenario, on_batch=lambda b: seconds.append(b.seconds), max_batch_size=4
  )
  assert timed == pytest.approx([s / 4 for s in seconds])


@pytest.mark.parametrize(
  "error", [StopIteration(), asyncio.CancelledError(), SystemExit()]
)
def test_a_call_in_a_thread_ends_for_any_exception(error):
  def call():
    raise error

  async def main():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
      await asyncio.wait_for(batching.run_in_thread(pool, call), timeout=600)

  with pytest.raises(RuntimeError, match=type(error).__name__):
    asyncio.run(main())


# The following tests use a complete server.


def fault_in(monkeypatch, stage, error):
  """Makes a stage of answering raise an exception."""

  def fail(*arguments, **others):
    raise error

  monkeypatch.setattr(*stage, fail)


STAGES = {
  "compute": (application.limits, "compute"),
  "trim": (application.outputs, "trim"),
  "answer": (application.rest_json, "predict_response"),
  "write": (application.connections, "json_response"),
}


@pytest.mark.parametrize("error", [MemoryError(), ValueError("x"), KeyError(1)])
@pytest.mark.parametrize("stage", STAGES)
def test_an_internal_error_has_status_500(stage, error, monkeypatch, caplog):
  with serving_client.running(fake_model.FakeModel()) as running:
    with monkeypatch.context() as context:
      fault_in(context, STAGES[stage], error)
      if stage == "write":
        # If the error response also fails, the connection ends.
        with pytest.raises((ConnectionError, OSError, ValueError)):
          ask(running.url, PREDICT, {"instances": ["a"]})
      else:
        code, response = ask(running.url, PREDICT, {"instances": ["a"]})
        assert code == (503 if isinstance(error, MemoryError) else 500)
        assert "error" in response
        assert type(error).__name__ in caplog.text
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 200


@pytest.mark.parametrize("error", [MemoryError(), StopIteration()])
def test_a_fault_of_counting_does_not_fail_a_request(error, monkeypatch):
  with serving_client.running(fake_model.FakeModel()) as running:
    stage = (application.served.ServedModel, "piece_counts")
    monkeypatch.setattr(*stage, lambda model, inputs: iter(Raising(error)))
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 200


class Raising:
  """A mapping that raises an exception when it is read."""

  def __init__(self, error):
    self._error = error

  def __iter__(self):
    return self

  def __next__(self):
    raise self._error


def test_a_function_that_fails_when_it_warms_up_is_logged(caplog):
  model = fake_model.FakeModel()

  def fail(**tensors):
    raise StopIteration("cold")

  object.__setattr__(model.functions["sums"], "compute", fail)
  with serving_client.running(model) as running:
    while ask(running.url, "/readyz")[0] != 200:
      pass
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 200
  assert "cold" in caplog.text


def test_health_fails_after_the_computation_ended(monkeypatch, caplog):
  def take(batcher):
    raise ValueError("lost the queue")

  with serving_client.running(fake_model.FakeModel()) as running:
    assert ask(running.url, "/healthz")[0] == 200
    monkeypatch.setattr(batching.Batcher, "_take", take)
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 503
    assert ask(running.url, "/healthz")[0] == 500
    assert ask(running.url, "/readyz")[0] == 503
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 503
  assert "lost the queue" in caplog.text


ENDING = """
import threading, urllib.request
from bert_tf.server import application, batching, config
from tests.support import fake_model, serving_client

def take(batcher):
  raise ValueError("lost the queue")

batching.Batcher._take = take

def started(url):
  body = {"instances": ["ab"]}
  arguments = (url, fake_model.PREDICT, body)
  threading.Thread(target=serving_client.ask, args=arguments).start()

settings = config.ServerConfig(port=0)
application.run({"model": fake_model.FakeModel()}, settings, started)
"""


def test_the_process_exits_after_the_computation_ended():
  ended = subprocess.run(
    [sys.executable, "-c", ENDING],
    cwd=checkout.ROOT,
    capture_output=True,
    text=True,
    timeout=600,
  )
  assert ended.returncode == 1
  assert "lost the queue" in ended.stderr
  assert "ServingEndedError" in ended.stderr


def test_counting_stops_when_the_client_disconnects():
  model, counted = fake_model.FakeModel(), []
  is_counting, gate = threading.Event(), threading.Event()

  class Tokenizer:
    def tokenize_to_ids(self, text):
      counted.append(text)
      is_counting.set()
      gate.wait(timeout=600)
      return [1]

  model.gate.clear()
  text = "x" * 5000
  with serving_client.running(model) as running:
    [served] = running.server._models.values()
    served._tokenizer = Tokenizer()
    client = serving_client.Client(running.url)
    client.send(PREDICT, {"instances": [text] * 9})
    assert is_counting.wait(timeout=600)
    client.close()
    serving_client.wait_for_status(running.url, 499)
    gate.set()
    model.gate.set()
    served._tokenizer = None
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 200
  assert counted == [text]


def test_a_negative_input_mask_counts_as_a_word_piece():
  model = fake_model.FakeModel()
  mask = np.array([[1, -5, 0]])
  [served] = application.served.create_models({"model": model}).values()
  assert sum(served.piece_counts({"input_mask": mask})) == 2


def test_errors_of_the_server_are_json_with_their_status():
  error = batching.OverloadedError("busy", 7.2)
  response = guard._error_response(error)
  assert (response.status, response.headers["Retry-After"]) == (503, "8")
  assert json.loads(response.body) == {"error": "busy"}
