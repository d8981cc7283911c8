"""Tests for the limits of a request and of the memory that it needs."""

import concurrent.futures
import dataclasses
import threading

import pytest

from bert_tf.server import application, limits, models
from bert_tf.server.config import ServerConfig
from bert_tf.tasks import base
from tests.support import fake_model, serving_client, tiny_models
from tests.support.serving_client import ask

PREDICT = fake_model.PREDICT


def ids(*values, **others):
  row = {"input_ids": [*values], "input_mask": [1] * len(values)}
  return {**row, "segment_ids": [0] * len(values), **others}


@pytest.mark.parametrize(
  "row,words",
  [
    (ids(1, "a"), "input_ids.1"),
    (ids(1.5), "input_ids.0"),
    (ids(True), "input_ids.0"),
    (ids(1 << 40), "input_ids.0"),
    (ids(-1), "input_ids.0"),
    (ids(), "input_ids is empty"),
    (ids([1]), "input_ids.0"),
    (ids(1, label_ids=0), "label_ids"),
    ({"input_ids": [1]}, "input_mask"),
    (ids(1, segment_ids=[0, 0]), "differ in length"),
    (ids(*range(200)), "128 items"),
    ("a text", "dictionary"),
  ],
  ids=lambda value: str(value)[:30],
)
def test_a_row_of_ids_is_checked(row, words):
  with serving_client.running(fake_model.FakeModel()) as running:
    body = {"signature_name": "ids", "instances": [ids(1, 2), row]}
    code, response = ask(running.url, PREDICT, body)
    assert (code, "row 1" in response["error"]) == (400, True)
    assert words in response["error"]
    body["instances"] = [ids(1, 2)]
    assert ask(running.url, PREDICT, body) == (200, {"predictions": [3]})


def served(task=fake_model.Echo, **sizes):
  model = fake_model.FakeModel(text=task())
  model.bert_config = dataclasses.replace(tiny_models.CONFIG, **sizes)
  config = ServerConfig(max_batch_size=4)
  return models.ServedModel("model", model, config).signature(None)


def test_masks_are_as_large_as_their_logits():
  plain = base.model_input([1] * 10, 10)
  masked = base.model_input([1] * 10, 10, [0] * 5)
  small, large = (
    served(fake_model.Vectors, vocab_size=size) for size in (500, 1 << 22)
  )
  assert small.size(plain) == small.size(masked) == large.size(plain) == 10
  # A batch of these inputs has at most 2 ** 26 logits.
  num_inputs = large.max_size // large.size(masked)
  assert 1 <= num_inputs * 5 <= 1 << 4


def test_an_answer_is_limited_before_all_of_it_is_computed():
  task = fake_model.Constant({"codes": [[0] * 9] * 2}, "text")
  model = fake_model.FakeModel(text=task)
  limit = {"max_answer_values": 40, "max_batch_size": 1}
  with serving_client.running(model, num_batch_threads=1, **limit) as running:
    assert ask(running.url, PREDICT, {"instances": ["a"] * 2})[0] == 200
    model.calls.clear()
    code, response = ask(running.url, PREDICT, {"instances": ["a"] * 8})
    assert (code, "54" in response["error"]) == (413, True)
  assert len(model.calls) == 3


@pytest.mark.parametrize(
  "owner,name,text",
  [
    # The JSON of a large answer, and the tokens of a large text.
    (limits, "json_response", "a"),
    (fake_model.Echo, "preprocess", "a" * 10_000),
  ],
)
def test_large_requests_do_not_block_others(owner, name, text, monkeypatch):
  begun, gate = threading.Event(), threading.Event()
  original = getattr(owner, name)

  def slow(*arguments):
    if "predictions" in str(arguments) or len(text) > 1:
      begun.set()
      assert gate.wait(timeout=60)
    return original(*arguments)

  monkeypatch.setattr(application, "_LARGE_ANSWER", 0)
  monkeypatch.setattr(owner, name, slow)
  with (
    serving_client.running(fake_model.FakeModel()) as running,
    concurrent.futures.ThreadPoolExecutor(1) as pool,
  ):
    result = pool.submit(ask, running.url, PREDICT, {"instances": [text]})
    assert begun.wait(timeout=600)
    assert serving_client.metrics(running.url)
    gate.set()
    assert result.result()[0] == 200
