"""Tests of /v1/embeddings, over HTTP on this machine."""

import base64

import pytest

from tests.support import fake_model, serving_client
from tests.support.serving_client import ask

PATH = "/v1/embeddings"


@pytest.fixture(scope="module")
def server():
  models = {
    "vectors": fake_model.VectorModel(),
    "other": fake_model.FakeModel(),
  }
  with serving_client.running(
    models, max_batch_size=2, max_text_length=2000, max_answer_values=100
  ) as running:
    yield running


def body(texts, **others):
  return {"model": "vectors", "input": texts, **others}


def test_a_text_and_a_list_are_answered_in_openais_form(server):
  usage = {"prompt_tokens": 4, "total_tokens": 4}
  first = {"object": "embedding", "index": 0, "embedding": [4.0, 2.0]}
  answer = {"object": "list", "model": "vectors"}
  expected = {**answer, "data": [first], "usage": usage}
  for texts in ("a bc", ["a bc"]):
    assert ask(server.url, PATH, body(texts, user="x")) == (200, expected)
  second = {"object": "embedding", "index": 1, "embedding": [1.0, 1.0]}
  usage = {"prompt_tokens": 7, "total_tokens": 7}
  expected = {**answer, "data": [first, second], "usage": usage}
  request = body(["a bc", "d"], encoding_format="float", dimensions=2)
  assert ask(server.url, PATH, request) == (200, expected)
  # LiteLLM sends null for arguments that are not set.
  request = body(["a bc", "d"], encoding_format=None, dimensions=None)
  assert ask(server.url, PATH, request) == (200, expected)
  request = body("a bc", encoding_format="base64")
  [row] = ask(server.url, PATH, request)[1]["data"]
  # 4.0 and 2.0 in IEEE 754, little-endian float32.
  assert base64.b64decode(row["embedding"]) == bytes.fromhex("0000804000000040")


@pytest.mark.parametrize(
  ("request_body", "status", "param", "words"),
  [
    ({"model": "vectors"}, 400, "input", "input"),
    (body([1, 2]), 400, "input", "token ids"),
    (body("a", dimensions=1), 400, "dimensions", "2 values"),
    (body("a", encoding_format="int8"), 400, "encoding_format", "'float'"),
    (body(["a", "x" * 2001]), 400, None, "2001 bytes"),
    (body(["a"] * 2049), 400, None, "2048"),
    ({"model": "gpt", "input": "a"}, 404, "model", "'gpt'"),
    ({"model": "other", "input": "a"}, 404, "model", "'other'"),
    (b"{", 400, None, "JSON"),
    (body(["a"] * 51), 413, None, "102"),
  ],
  ids=lambda value: str(value)[:30],
)
def test_mistakes_are_explained_in_openais_form(
  server, request_body, status, param, words
):
  code, response = ask(server.url, PATH, request_body)
  assert code == status
  error = response["error"]
  assert words in error["message"]
  assert (error["type"], error["param"]) == ("invalid_request_error", param)
  assert error["code"] == ("model_not_found" if status == 404 else None)
