"""Tests for the server, over HTTP on this machine."""

import base64
import concurrent.futures
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import numpy as np
import pytest

import bert_tf
from bert_tf.export import export
from bert_tf.export.config import ExportConfig
from bert_tf.server.config import ServerConfig
from tests.support import checkout, near_ties, serving_client, tiny_models
from tests.support.fake_model import PREDICT, Constant, FakeModel
from tests.support.serving_client import ask

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def model():
  return FakeModel()


@pytest.fixture(scope="module")
def server():
  with serving_client.running(
    FakeModel(),
    max_rows=4,
    max_request_bytes=2000,
    max_text_length=100,
  ) as running:
    yield running


def test_rows_and_columns_are_answered_as_tensorflow_serving_does(server):
  for path in (PREDICT, "/v1/models/model/versions/7:predict"):
    assert ask(server.url, path, {"instances": ["ab", "ä"]}) == (
      200,
      {
        "predictions": [
          {"length": 2, "echo": "ab"},
          {"length": 2, "echo": "ä"},
        ]
      },
    )
  named = {"instances": [{"text": "abc"}]}
  [response] = ask(server.url, PREDICT, named)[1]["predictions"]
  assert response["length"] == 3
  text = {"b64": base64.b64encode(b"ab\xffc").decode()}
  for row in (text, {"text": text}):
    [answer] = ask(server.url, PREDICT, {"instances": [row]})[1]["predictions"]
    assert answer["echo"] == "abc"
  columns = {"outputs": {"length": [2], "echo": ["ab"]}}
  for inputs in (["ab"], {"text": ["ab"]}):
    for name in ("text", "serving_default"):
      body = {"signature_name": name, "inputs": inputs}
      assert ask(server.url, PREDICT, body) == (200, columns)


def test_the_only_output_for_ids_has_no_name(server):
  row = {"input_ids": [1, 2], "input_mask": [1, 1], "segment_ids": [0, 0]}
  columns = {name: [values] for name, values in row.items()}
  # A client of a model of 2018 sends ids without the name of a signature.
  for name in ("ids", None, "serving_default"):
    body = {"signature_name": name, "instances": [row, row]}
    assert ask(server.url, PREDICT, body) == (200, {"predictions": [3, 3]})
    body = {"signature_name": name, "inputs": columns}
    assert ask(server.url, PREDICT, body) == (200, {"outputs": [3]})


def test_outputs_that_are_no_numbers_fail_only_their_own_request(server):
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    good, bad = (
      pool.submit(ask, server.url, PREDICT, instances(text))
      for text in ("good", "nan")
    )
  assert good.result()[0] == 200
  code, response = bad.result()
  assert (code, "not finite" in response["error"]) == (500, True)


@pytest.mark.parametrize(
  ("verb", "answer", "result"),
  [
    (
      "classify",
      {"label": "a", "probabilities": {"a": 0.75, "b": 0.25}},
      [["a", 0.75], ["b", 0.25]],
    ),
    ("regress", {"label": 2.5, "probabilities": {}}, 2.5),
  ],
)
def test_examples_are_answered_in_tensorflow_servings_form(
  server, verb, answer, result
):
  model = FakeModel(text=Constant(answer, "text"))
  path = f"/v1/models/model:{verb}"
  with serving_client.running(model) as running:
    body = {"examples": [{"text": "x"}, {}], "context": {"text": "y"}}
    assert ask(running.url, path, body) == (200, {"results": [result] * 2})
  assert ask(server.url, path, {"examples": [{"text": "x"}]})[0] == 400


def test_only_pages_of_a_given_origin_may_ask():
  origin = "https://app.example.com"
  with serving_client.running(FakeModel(), cors_origin=(origin,)) as running:
    for name, allowed in ((origin, origin), ("https://evil.example", None)):
      headers = {"Origin": name, "Access-Control-Request-Method": "POST"}
      for method, path in (("OPTIONS", PREDICT), ("GET", "/v1/models")):
        client = serving_client.Client(running.url)
        client._connection.request(method, path, headers=headers)
        response = client._connection.getresponse()
        assert response.headers["Access-Control-Allow-Origin"] == allowed
        client.close()


def test_a_model_without_a_vocabulary_says_how_to_get_one(caplog):
  model = FakeModel()
  model.tasks = {}
  with serving_client.running(model) as running:
    for name in (None, "text"):
      body = {"instances": ["a"], "signature_name": name}
      code, response = ask(running.url, PREDICT, body)
      assert (code, list(response)) == (400, ["error"])
  assert "vocab.txt" in caplog.text


def test_status_and_metadata_are_tensorflow_servings(server):
  fine = {"error_code": "OK", "error_message": ""}
  state = {"version": "7", "state": "AVAILABLE", "status": fine}
  for path in ("/v1/models/model", "/v1/models/model/versions/7"):
    assert ask(server.url, path) == (200, {"model_version_status": [state]})
  code, response = ask(server.url, "/v1/models/model/metadata")
  assert code == 200
  assert response["model_spec"] == {"name": "model", "version": "7"}
  signatures = response["metadata"]["signature_def"]["signature_def"]
  assert list(signatures) == ["text", "ids"]
  assert signatures["text"]["inputs"]["text"]["dtype"] == "DT_STRING"
  ids = signatures["ids"]
  assert ids["method_name"] == "tensorflow/serving/predict"
  assert ids["inputs"]["input_ids"]["dtype"] == "DT_INT32"
  sizes = ids["inputs"]["input_ids"]["tensor_shape"]["dim"]
  assert [size["size"] for size in sizes] == ["-1", "-1"]
  assert ask(server.url, "/healthz") == (
    200,
    {"status": "ok", "model": "model", "version": "7"},
  )


@pytest.mark.parametrize(
  "method,path,status,words",
  [
    ("POST", "/v1/models/x:predict", 404, "request: Latest(x)"),
    ("POST", "/v1/models/model/versions/8:predict", 404, "Specific(model, 8)"),
    ("GET", "/v1/models/x", 404, "request: Latest(x); this server has model"),
    ("GET", "/v1/models/x/metadata", 404, "Servable not found"),
    ("GET", "/v1/models/model:predict", 405, "Malformed request: GET"),
    ("POST", "/v1/models/model:forget", 404, "Malformed request: POST"),
    ("POST", "/v2", 404, "Malformed request: POST /v2"),
    ("DELETE", "/v1/models/model", 405, "Malformed request: DELETE"),
  ],
)
def test_unknown_paths_and_models_are_named(
  server, method, path, status, words
):
  body = {"instances": ["a"]} if method == "POST" else None
  code, response = ask(server.url, path, body, method)
  assert code == status
  assert words in response["error"]


def instances(*values, **others):
  return {"instances": list(values), **others}


@pytest.mark.parametrize(
  "body,words",
  [
    (b'{"instances": ["\xff"]}', "UTF-8"),
    (b"[1]", "JSON"),
    (b"", "required"),
    ({}, "'inputs' or 'instances'"),
    ({"instances": ["a"], "inputs": ["a"]}, "'instances' and 'inputs'"),
    (instances(), "has 0 rows"),
    (instances("a", signature_name=3), "signature_name"),
    (instances("a", signature_name="none"), '"none"'),
    (instances(3), "row 0"),
    (instances({"b64": "%"}), "base64"),
    (instances({"text": "a", "more": "b"}), "more"),
    (instances("\ud800"), "row 0"),
    (instances(*"abcde"), "has 5 rows, but this server takes 1 to 4"),
    (instances("ä" * 51), "102 bytes, but this server's limit is 100"),
    ({"inputs": {"text": ["a"], "other": ["a", "b"]}}, "numbers of rows"),
    (instances("bad"), "a text is bad"),
  ],
)
def test_an_invalid_request_is_named(server, body, words):
  code, response = ask(server.url, PREDICT, body)
  assert (code, list(response)) == (400, ["error"])
  assert words in response["error"]
  assert "\n" not in response["error"]


def test_an_incomplete_request_times_out(model):
  with serving_client.running(model, read_timeout_s=0.2) as running:
    port = int(running.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=600) as sock:
      head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
      head += "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
      sock.sendall(head.encode() + b"{")
      assert b" 408 " in sock.recv(1000).splitlines()[0]


def test_a_stop_finishes_running_requests_and_refuses_others(model):
  model.gate.clear()
  server = serving_client.Running(model)
  client = serving_client.Client(server.url)
  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    future = pool.submit(client.ask, PREDICT, instances("first"))
    assert model.begun.wait(timeout=600)
    server.stop()
    address = urllib.parse.urlsplit(server.url)
    with pytest.raises(ConnectionError):
      while True:  # Until the server handles the stop.
        socket.create_connection((address.hostname, address.port), 600).close()
        time.sleep(0.01)
    assert not future.done()
    model.gate.set()
    code, result = future.result()
  assert code == 200
  assert result["predictions"][0]["echo"] == "first"
  assert client.headers["Connection"] == "close"
  client.close()
  server.join()


def test_a_port_in_use_is_reported_before_a_model_is_opened(
  run_script, tmp_path
):
  with socket.create_server(("127.0.0.1", 0)) as other:
    port = other.getsockname()[1]
    result = run_script(
      *("serve", "--model=missing", f"--port={port}"), cwd=tmp_path
    )
  assert result.returncode == 1
  [line] = result.stderr.splitlines()
  assert f"--port={port}" in line and "missing" not in line


def test_a_request_waits_while_the_models_are_loaded():
  url, sockets = ServerConfig(port=0).listen()
  client = serving_client.Client(url)
  client.send(PREDICT, {"instances": ["ab"]})
  with serving_client.running(FakeModel(), sockets=sockets):
    code, response = client.receive()
  client.close()
  assert (code, response["predictions"][0]["echo"]) == (200, "ab")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
  return tiny_models.write_classifier(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def predictor(run_folder):
  return bert_tf.Predictor(str(run_folder / "model.ckpt-1"))


@pytest.fixture(scope="module")
def real_server(predictor):
  with serving_client.running(predictor, max_batch_size=8) as running:
    yield running


def assert_answers(predictions, expected):
  """Asserts that predictions equal those of Predictor, to float32 precision."""
  for prediction, other in zip(predictions, expected, strict=True):
    assert prediction["label"] in near_ties.best(other["probabilities"])
    assert prediction.keys() == other.keys()
    assert prediction["probabilities"] == pytest.approx(
      other["probabilities"], abs=1e-5
    )


def test_many_clients_get_their_own_answers(real_server, predictor):
  texts = [
    f"{'the of ' * (i % 6)}and {'in ' * (i % 11)}{i}" for i in range(120)
  ]
  expected = predictor.predict(texts)

  def send(text):
    return ask(real_server.url, PREDICT, instances(text))

  with concurrent.futures.ThreadPoolExecutor(30) as pool:
    answers = [*pool.map(send, texts)]
  assert {code for code, _ in answers} == {200}
  assert_answers([a["predictions"][0] for _, a in answers], expected)


def test_ids_out_of_range_are_the_clients_mistake(real_server):
  row = {"input_ids": [2, 9, 3], "input_mask": [1, 1, 1]}
  row["segment_ids"] = [0, 0, 0]
  body = {"signature_name": "ids", "instances": [row]}
  assert ask(real_server.url, PREDICT, body)[0] == 200
  row["input_ids"] = [0, 500, 1]
  code, response = ask(real_server.url, PREDICT, body)
  assert (code, "500" in response["error"]) == (400, True)


def test_attention_is_that_of_a_head_or_the_mean(real_server, predictor):
  path = "/v1/models/model:attention"
  attention = predictor.attention("the of", "and")
  body = {"text": "the of", "text_b": "and", "layer": 1}
  code, response = ask(real_server.url, path, body)
  assert code == 200
  assert (response["num_layers"], response["num_heads"]) == (2, 2)
  assert tuple(response["tokens"]) == attention.tokens
  np.testing.assert_allclose(
    response["attention"], attention.probabilities[1].mean(axis=0), atol=1e-4
  )
  code, response = ask(real_server.url, path, {**body, "head": 1, "layer": 0})
  np.testing.assert_allclose(
    response["attention"], attention.probabilities[0, 1], atol=1e-4
  )
  for change in ({"layer": 2}, {"head": -1}, {"head": "a"}, {"text": 3}):
    code, response = ask(real_server.url, path, {**body, **change})
    assert (code, list(response)) == (400, ["error"])


def test_the_script_serves_models_until_sigterm(run_folder, tmp_path):
  path = tmp_path / "models" / "12"
  export.run(
    ExportConfig(
      export_dir=str(path),
      init_checkpoint=str(run_folder / "model.ckpt-1"),
    )
  )
  script = [sys.executable, *checkout.program("serve")]
  arguments = ["--model=tiny=models", f"--model=run={run_folder}"]
  arguments += ["--port=0", "--log_format=json"]
  process = subprocess.Popen(
    [*script, *arguments],
    cwd=tmp_path,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )
  try:
    first = json.loads(process.stdout.readline())
    assert first["event"] == "started"
    assert first["models"] == {"tiny": "models", "run": str(run_folder)}
    url = first["url"]
    predict = "/v1/models/tiny/versions/12:predict"
    body = instances("the of", "and", signature_name="text")
    code, response = ask(url, predict, body)
    assert code == 200
    expected = bert_tf.Predictor(str(path)).predict(["the of", "and"])
    assert_answers(response["predictions"], expected)
    other = "/v1/models/run:predict"
    assert ask(url, other, instances("the of"))[0] == 200
  finally:
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=600)
  assert process.returncode == 0, errors
  assert "SIGTERM: finishing" in errors
  paths = [json.loads(line)["path"] for line in output.splitlines()]
  assert paths == [predict, other]
