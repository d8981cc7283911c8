"""Tests for the server's description, metrics, log and readiness."""

import contextlib
import copy
import json
import os
import re
import sys
import threading
import time
import urllib.request

import jsonschema
import pytest

import bert_tf
from bert_tf.server import application
from bert_tf.server import config as server_config
from tests.support import fake_model, serving_client, tiny_models
from tests.support.serving_client import ask

PREDICT = "/v1/models/model:predict"


@pytest.fixture(scope="module")
def real_server(tmp_path_factory):
  folder = tiny_models.write_classifier(tmp_path_factory.mktemp("run"))
  model = bert_tf.Predictor(str(folder / "model.ckpt-1"))
  with serving_client.running(model, max_rows=4) as running:
    yield running


@pytest.fixture(scope="module")
def fake_server():
  with serving_client.running(fake_model.FakeModel(), max_rows=4) as running:
    yield running


def get(url, path):
  """Returns (status, Content-Type, text)."""
  with urllib.request.urlopen(url + path, timeout=600) as response:
    kind = response.headers["Content-Type"]
    return response.status, kind, response.read().decode()


def wait_until_ready(url):
  while ask(url, "/readyz")[0] != 200:
    time.sleep(0.01)


def check(description, schema, value):
  """Raises jsonschema.ValidationError if a value does not match a schema."""
  result = {**schema, "components": description["components"]}
  jsonschema.Draft202012Validator(result).validate(value)


def json_schema(answers, status):
  return answers[str(status)]["content"]["application/json"]["schema"]


def operations(description):
  """Yields (path, method, operation)."""
  for path, methods in description["paths"].items():
    for method, operation in methods.items():
      yield path, method, operation


@pytest.fixture(scope="module")
def several_server(tmp_path_factory):
  """A run with a run.json, and another model."""
  folder = tiny_models.write_classifier(tmp_path_factory.mktemp("run"))
  labels = json.loads((folder / "label_map.json").read_text())
  run = {
    "task": "classification",
    **labels,
    "is_pair": False,
    "do_lower_case": True,
    "max_seq_length": 32,
    "num_train_examples": 9,
    "num_dev_examples": 3,
    "scores": {"eval_accuracy": 0.5},
    "examples": [{"inputs": {"text": "the of"}, "answer": "good"}],
  }
  (folder / "run.json").write_text(json.dumps(run))
  models = {
    "a_run": bert_tf.Predictor(str(folder)),
    "fake": fake_model.FakeModel(),
  }
  with serving_client.running(models, max_rows=4) as running:
    yield running


@pytest.fixture(scope="module")
def vector_server():
  with serving_client.running(fake_model.VectorModel()) as running:
    yield running


KINDS = ["real_server", "fake_server", "several_server", "vector_server"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_description_matches_the_server(kind, request):
  url = request.getfixturevalue(kind).url
  wait_until_ready(url)
  code, description = ask(url, "/openapi.json")
  assert (code, description["openapi"]) == (200, "3.1.0")
  num_sent = 0
  for path, method, operation in operations(description):
    if method == "get":
      [content] = operation["responses"]["200"]["content"].items()
      code, kind, text = get(url, path)
      assert code == 200 and kind.startswith(content[0]), path
      is_json = content[0] == "application/json"
      check(
        description, content[1]["schema"], json.loads(text) if is_json else text
      )
      continue
    content = operation["requestBody"]["content"]["application/json"]
    for name, example in content["examples"].items():
      check(description, content["schema"], example["value"])
      code, response = ask(url, path, example["value"])
      assert code == 200, (path, name, response)
      check(description, json_schema(operation["responses"], 200), response)
      if path.endswith(":predict"):
        schemas = description["components"]["schemas"]
        second = "/fake" in path
        schema = f"{'model_2_' if second else ''}predict_{name}_response"
        check(description, schemas[schema], response)
      num_sent += 1
  assert num_sent >= 6


@pytest.mark.parametrize("kind", ["real_server", "fake_server"])
def test_columns_are_described_too(kind, request):
  url = request.getfixturevalue(kind).url
  description = ask(url, "/openapi.json")[1]
  predict = description["paths"][PREDICT]["post"]
  content = predict["requestBody"]["content"]["application/json"]
  for name, example in content["examples"].items():
    [row] = example["value"]["instances"]
    body = {
      "signature_name": name,
      "inputs": {key: [value] for key, value in row.items()},
    }
    schema = description["components"]["schemas"][f"predict_{name}_request"]
    check(description, schema, body)
    code, response = ask(url, PREDICT, body)
    assert code == 200, (name, response)
    check(description, json_schema(predict["responses"], 200), response)


def test_models_are_described(several_server):
  run, fake = ask(several_server.url, "/v1/models")[1]["models"]
  assert fake == {"name": "fake", "version": "7"}
  assert run["labels"] == ["good", "<b>bad</b>", "so so"]
  assert run["scores"] == {"eval_accuracy": 0.5}
  assert run["examples"] == [{"inputs": {"text": "the of"}, "answer": "good"}]
  assert run["size"]["hidden_size"] == 16
  # Computed by hand: embeddings, two layers, pooler and head of tiny_models.
  embeddings = (500 + 128 + 2) * 16 + 2 * 16
  layer = 4 * (16 * 16 + 16) + 2 * 16 * 32 + 32 + 16 + 4 * 16
  total = embeddings + 2 * layer + (16 * 16 + 16) + 3 * (16 + 1)
  assert run["size"]["num_parameters"] == total


def test_exactly_the_routes_are_described(fake_server):
  description = ask(fake_server.url, "/openapi.json")[1]
  described = {(m.upper(), p) for p, m, _ in operations(description)}
  server = application.Server(
    {"model": fake_model.FakeModel()}, server_config.ServerConfig()
  )
  routes = {
    (
      route.method,
      re.sub(r"\{(\w+)[^{}]*\}", r"{\1}", route.path)
      .replace("{name}", "model")
      .replace("{version}", "7"),
    )
    for route in server._routes()
  }
  # The model has no functions for these paths.
  missing = {"/v1/embeddings", PREDICT.replace("predict", "attention")}
  missing.add("/v1/models/model/versions/7:attention")
  assert {route for route in routes if route[1] not in missing} == described


def test_requests_for_vectors_are_described(vector_server):
  url = vector_server.url
  description = ask(url, "/openapi.json")[1]
  operation = description["paths"]["/v1/embeddings"]["post"]
  schema = operation["requestBody"]["content"]["application/json"]["schema"]
  for change, status in (
    ({"encoding_format": "base64", "dimensions": None, "user": 1}, 200),
    ({"input": ["a", "b"]}, 200),
    ({"dimensions": 2}, 200),
    ({"dimensions": 3}, 400),
    ({"input": [1]}, 400),
    ({"input": []}, 400),
    ({"encoding_format": "int8"}, 400),
    ({"model": "other"}, 404),
    ({"extra": 1}, 400),
  ):
    body = {"model": "model", "input": "a", **change}
    code, response = ask(url, "/v1/embeddings", body)
    assert code == status
    check(description, json_schema(operation["responses"], status), response)
    if status == 200:
      check(description, schema, body)
    else:
      with pytest.raises(jsonschema.ValidationError):
        check(description, schema, body)


def test_attention_is_described_for_models_that_have_it(several_server):
  paths = ask(several_server.url, "/openapi.json")[1]["paths"]
  assert [path for path in paths if path.endswith(":attention")] == [
    "/v1/models/a_run:attention",
    "/v1/models/a_run/versions/1:attention",
  ]


BAD = [
  {"text": 5},
  {"text": ["a"]},
  {"other": "a"},
  {},
  {"text": {"b64": 5}},
  {"text": "a", "more": "b"},
  {"text": {"b64": "x"}},
  {"text": {"b64": "YQ"}},
  {"text": {"b64": "YQ==YQ=="}},
  {"text": "x" * 20001},
]

BAD_BODIES = [
  {"instances": []},
  {"inputs": []},
  {"inputs": {"text": []}},
  {"inputs": ["a"] * 5},
  {"inputs": {"text": ["a"] * 5}},
  {"inputs": {"b64": "YQ=="}},
  {"signature_name": "sums", "inputs": []},
]


@pytest.mark.parametrize("row", BAD, ids=[str(row)[:40] for row in BAD])
def test_the_server_rejects_what_the_description_rejects(fake_server, row):
  body = {"signature_name": "serving_default", "instances": [row]}
  assert_refused_by_both(fake_server.url, body)


@pytest.mark.parametrize("body", BAD_BODIES, ids=map(str, BAD_BODIES))
def test_bodies_that_the_description_rejects_are_rejected(fake_server, body):
  assert_refused_by_both(fake_server.url, body)


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("input_ids", 500),
    ("input_ids", -1),
    ("input_mask", 2),
    ("segment_ids", 2),
  ],
)
def test_ids_out_of_range_are_rejected_by_both(real_server, name, value):
  row = {"input_ids": [2], "input_mask": [1], "segment_ids": [0]}
  body = {"signature_name": "ids", "instances": [row | {name: [value]}]}
  assert_refused_by_both(real_server.url, body)


def assert_refused_by_both(url, body):
  description = ask(url, "/openapi.json")[1]
  operation = description["paths"][PREDICT]["post"]
  schema = operation["requestBody"]["content"]["application/json"]["schema"]
  with pytest.raises(jsonschema.ValidationError):
    check(description, schema, body)
  code, response = ask(url, PREDICT, body)
  assert code == 400
  check(description, json_schema(operation["responses"], 400), response)


def test_more_rows_than_allowed_are_rejected_by_both(fake_server):
  description = ask(fake_server.url, "/openapi.json")[1]
  operation = description["paths"][PREDICT]["post"]
  schema = operation["requestBody"]["content"]["application/json"]["schema"]
  for num_rows, status in ((4, 200), (5, 400)):
    body = {"instances": ["a"] * num_rows}
    assert ask(fake_server.url, PREDICT, body)[0] == status
  with pytest.raises(jsonschema.ValidationError):
    check(description, schema, body)


def test_an_answer_of_another_type_does_not_match(fake_server):
  description = ask(fake_server.url, "/openapi.json")[1]
  operation = description["paths"][PREDICT]["post"]
  schema = json_schema(operation["responses"], 200)
  response = ask(fake_server.url, PREDICT, {"instances": ["ab"]})[1]
  check(description, schema, response)
  for name, value in (("length", "2"), ("echo", None), ("more", 1)):
    bad = copy.deepcopy(response)
    bad["predictions"][0][name] = value
    with pytest.raises(jsonschema.ValidationError):
      check(description, schema, bad)


def metrics(url):
  """Returns values by name and labels, as written."""
  code, kind, text = get(url, "/metrics")
  assert code == 200 and kind.startswith("text/plain")
  lines = [line for line in text.splitlines() if not line.startswith("#")]
  return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines)}


def test_metrics_count_requests_rows_and_batches():
  model = fake_model.FakeModel()
  with serving_client.running(model, max_wait_ms=0) as running:
    wait_until_ready(running.url)
    ask(running.url, PREDICT, {"instances": ["ab", "ä"]})
    ask(running.url, PREDICT, {"instances": ["bad"]})
    ask(running.url, "/v1/models/other:predict", {"instances": ["a"]})
    ask(running.url, "/nothing/of/the/kind")
    result = metrics(running.url)
  path = 'path="/v1/models/{name}:predict"'
  requests = "bert_tf_requests_total"
  for status, count in ((200, 1), (400, 1), (404, 1)):
    labels = f'{{method="POST",{path},status="{status}"}}'
    assert result[requests + labels] == count
  other = '{method="GET",path="other",status="404"}'
  assert result[requests + other] == 1
  assert result[f"bert_tf_request_seconds_count{{{path}}}"] == 3
  signature = '{model="model",signature="serving_default"}'
  assert result[f"bert_tf_rows_total{signature}"] == 3
  assert result[f"bert_tf_text_bytes_total{signature}"] == 4 + 3
  assert result[f"bert_tf_windows_total{signature}"] == 3
  assert result["bert_tf_batch_rows_sum"] == 2  # The other request failed.
  assert result["bert_tf_batch_seconds_count"] == 1
  assert result["bert_tf_wait_seconds_count"] == 1
  assert result["bert_tf_waiting_requests"] == 0
  assert result["bert_tf_ready"] == 1
  assert result["process_resident_memory_bytes"] > 0


def test_word_pieces_are_counted_for_each_model_and_signature(several_server):
  url = several_server.url
  path = "/v1/models/a_run:predict"
  before = metrics(url)
  # unk is in the vocabulary, zz has two pieces, and thé is the.
  ask(url, path, {"instances": ["the of unk zz thé", "in"]})
  pair = {"text": "the", "text_b": "of in"}
  ask(url, path, {"signature_name": "text_pair", "instances": [pair]})
  # [CLS], two word pieces, [SEP] and [PAD].
  ids = {"input_ids": [2, 17, 9, 3, 0], "input_mask": [1, 1, 1, 1, 0]}
  ids["segment_ids"] = [0] * 5
  ask(url, path, {"signature_name": "ids", "instances": [ids]})
  ask(url, "/v1/models/fake:predict", {"instances": ["the of"]})
  after = metrics(url)

  def counted(model, signature):
    labels = f'{{model="{model}",signature="{signature}"}}'
    name = f"bert_tf_word_pieces_total{labels}"
    return after.get(name, 0) - before.get(name, 0)

  assert counted("a_run", "serving_default") == 7
  assert counted("a_run", "text_pair") == 3
  assert counted("a_run", "ids") == 2
  assert counted("fake", "serving_default") == 0  # The model has no vocabulary.


def test_metrics_know_the_queue():
  model = fake_model.FakeModel()
  with serving_client.running(
    model, max_wait_ms=0, max_batch_size=1, num_batch_threads=1
  ) as running:
    wait_until_ready(running.url)
    model.gate.clear()
    threads = [
      threading.Thread(
        target=ask, args=(running.url, PREDICT, {"instances": ["a"]})
      )
      for _ in range(4)
    ]
    for thread in threads:
      thread.start()
    # The first request is being computed.
    while metrics(running.url)["bert_tf_waiting_requests"] != 3:
      time.sleep(0.01)
    model.gate.set()
    for thread in threads:
      thread.join(timeout=600)
    assert metrics(running.url)["bert_tf_waiting_requests"] == 0


def test_a_server_is_alive_before_it_is_ready():
  model = fake_model.FakeModel()
  gate = threading.Event()
  compute = model.functions["sums"].compute

  def slow(**tensors):
    gate.wait(timeout=600)
    return compute(**tensors)

  object.__setattr__(model.functions["sums"], "compute", slow)
  with serving_client.running(model) as running:
    assert ask(running.url, "/healthz")[0] == 200
    code, response = ask(running.url, "/readyz")
    assert (code, "not warm" in response["error"]) == (503, True)
    assert metrics(running.url)["bert_tf_ready"] == 0
    gate.set()
    wait_until_ready(running.url)
    code, response = ask(running.url, "/readyz")
    assert response == {"status": "ok", "model": "model", "version": "7"}


def test_a_function_that_rejects_made_up_inputs_can_be_served():
  model = fake_model.FakeModel()
  refuse = fake_model.refusing_function()
  model.functions["refusing"] = refuse
  with serving_client.running(model) as running:
    wait_until_ready(running.url)


def test_a_closed_log_does_not_stop_the_server(monkeypatch, capsys, caplog):
  reader, writer = os.pipe()
  os.close(reader)
  stdout = open(writer, "w", buffering=1)
  monkeypatch.setattr(sys, "stdout", stdout)
  model = fake_model.FakeModel()
  with serving_client.running(model, log_format="text") as running:
    for _ in range(2):
      assert ask(running.url, "/healthz")[0] == 200
  assert "Traceback" not in capsys.readouterr().err
  warnings = [r for r in caplog.records if r.levelname == "WARNING"]
  assert ["stdout" in record.getMessage() for record in warnings] == [True]
  with contextlib.suppress(BrokenPipeError):
    stdout.close()


@pytest.mark.parametrize("log_format", ["none", "text", "json"])
def test_each_request_is_a_line_without_its_text(log_format, capsys):
  model = fake_model.FakeModel()
  with serving_client.running(model, log_format=log_format) as running:
    ask(running.url, PREDICT, {"instances": ["secret", "b"]})
    ask(running.url, "/a%0Ab?text=hidden")
  printed = capsys.readouterr().out
  assert "secret" not in printed and "hidden" not in printed
  lines = printed.splitlines()
  if log_format == "none":
    assert lines == []
    return
  first, second = lines
  if log_format == "text":
    assert f"method=POST path={PREDICT} status=200 milliseconds=" in first
    assert first.endswith("rows=2")
    assert "path=/a%0Ab status=404" in second
    return
  first, second = json.loads(first), json.loads(second)
  assert first["milliseconds"] >= 0 and first["bytes"] > 0
  assert re.fullmatch(r"[-\d]{10}T[:\d]{8}\.\d{3}\+00:00", first["time"])
  names = ("remote", "method", "path", "status", "rows")
  assert [first[n] for n in names] == ["127.0.0.1", "POST", PREDICT, 200, 2]
  assert (second["status"], "rows" in second) == (404, False)
