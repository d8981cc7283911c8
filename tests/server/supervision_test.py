"""Tests that a fault or a stall of any stage fails only its own requests."""

import concurrent.futures
import threading
import time
from unittest import mock

import pytest

from bert_tf.server import application, limits, models
from tests.support import fake_model, serving_client
from tests.support.serving_client import ask

PREDICT = fake_model.PREDICT
EVIL = "evil"

# The stages of a request, in order, by owner and name of their function.
STAGES = {
  "preprocess": (models.Signature, "preprocess"),
  "compute": (fake_model.FakeModel, "compute"),
  "answer": (fake_model.Echo, "postprocess"),
  "encode": (limits, "json_response"),
}


def inject(monkeypatch, stage, fault, text=EVIL):
  """Calls `fault` before a stage of a request that has this text."""
  owner, name = stage
  original = getattr(owner, name)
  ids = str([*text.encode()])[1:-1]

  def faulty(*arguments, **others):
    if text in (shown := str(arguments)) or ids in shown:
      fault()
    return original(*arguments, **others)

  monkeypatch.setattr(owner, name, faulty)


def raising(error):
  return mock.Mock(side_effect=error)


def ask_together(url, texts):
  """Sends a request for each text, all at once; returns status and echo."""

  def send(text):
    code, response = ask(url, PREDICT, {"instances": [text]})
    return code, [row["echo"] for row in response.get("predictions", ())]

  with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
    return list(pool.map(send, texts))


def wait_for_status(url, path, status):
  while ask(url, path)[0] != status:
    time.sleep(0.01)


@pytest.mark.parametrize("error", [MemoryError(), KeyError(1)], ids=repr)
@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_fails_only_its_own_request(stage, error, monkeypatch, caplog):
  model = fake_model.FakeModel()
  inject(monkeypatch, STAGES[stage], raising(error))
  with serving_client.running(
    model, max_batch_size=3, max_wait_ms=300
  ) as running:
    first, second, third = ask_together(running.url, ["ab", "evil", "c"])
    assert ask_together(running.url, ["d"]) == [(200, ["d"])]
    assert ask(running.url, "/healthz")[0] == 200
  assert (first, third) == ((200, ["ab"]), (200, ["c"]))
  assert second[0] == (503 if isinstance(error, MemoryError) else 500)
  assert type(error).__name__ in caplog.text


@pytest.mark.parametrize("stage", STAGES)
def test_a_stall_fails_liveness_and_waiting_requests(stage, monkeypatch):
  monkeypatch.setattr(application, "_LARGE_BYTES", 0)
  monkeypatch.setattr(application, "_LARGE_ANSWER", 0)
  gate = threading.Event()
  inject(monkeypatch, STAGES[stage], lambda: gate.wait(600))
  with serving_client.running(
    fake_model.FakeModel(),
    max_batch_size=3,
    max_wait_ms=300,
    max_stall_s=1.0,
    num_batch_threads=1,
  ) as running:
    wait_for_status(running.url, "/readyz", 200)
    results = ask_together(running.url, ["ab", "evil", "c"])
    wait_for_status(running.url, "/healthz", 503)
    assert ask(running.url, "/readyz")[0] == 503
    new = ask_together(running.url, ["d"])
    gate.set()
    wait_for_status(running.url, "/healthz", 200)
    assert ask_together(running.url, ["e"]) == [(200, ["e"])]
  assert results[1] == new[0] == (503, [])
  assert {code for code, _ in results} <= {200, 503}


def test_requests_whose_clients_left_are_computed_no_further():
  model = fake_model.FakeModel()
  model.gate.clear()
  with serving_client.running(
    model, max_batch_size=1, num_batch_threads=1
  ) as running:
    computing, waiting = (serving_client.Client(running.url) for _ in range(2))
    computing.send(PREDICT, {"instances": ["a", "b", "c"]})
    assert model.begun.wait(timeout=600)
    waiting.send(PREDICT, {"instances": ["gone"]})
    serving_client.wait_for_waiting(running.url, 2)
    computing.close()
    waiting.close()
    serving_client.wait_for_waiting(running.url, 0)
    serving_client.wait_for_status(running.url, 499)
    model.gate.set()
    assert ask_together(running.url, ["d"]) == [(200, ["d"])]
  assert model.calls == [["a"], ["d"]]


def test_a_function_that_fails_when_it_warms_up_is_logged(monkeypatch, caplog):
  stage = STAGES["compute"]
  inject(monkeypatch, stage, raising(StopIteration("cold")), text="\0\0\0\0")
  with serving_client.running(fake_model.FakeModel()) as running:
    wait_for_status(running.url, "/readyz", 200)
    assert ask(running.url, PREDICT, {"instances": ["ab"]})[0] == 200
  assert "cold" in caplog.text
