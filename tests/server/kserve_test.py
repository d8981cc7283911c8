"""Tests of KServe's open inference protocol, over HTTP on this machine."""

import http.client
import json
import struct
import urllib.parse

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.inference import loaded_model
from tests.support import fake_model, serving_client
from tests.support.fake_model import spec
from tests.support.serving_client import ask

pytest.importorskip("aiohttp", reason="pip install 'bert_tf[serve]'")

MODEL = "/v2/models/model"
INFER = f"{MODEL}/infer"
TEXT = {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["ab", "ä"]}


@pytest.fixture(scope="module")
def server():
  model = fake_model.FakeModel()
  model.functions["wide"] = loaded_model.Function(
    {"ids": spec(tf.int64, None, 2), "scale": spec(tf.float32, None)},
    lambda ids, scale: {"scaled": tf.cast(ids, tf.float32) * scale[:, None]},
    lambda: {"scaled": spec(tf.float32, None, 2)},
  )
  with serving_client.running(model, max_rows=4, max_text_length=9) as running:
    while ask(running.url, "/readyz")[0] != 200:
      pass
    yield running


def request(*inputs, name=None, **others):
  if name:
    others["parameters"] = {"signature_name": name}
  return {"inputs": list(inputs), **others}


def tensor(name, datatype, shape, data):
  return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def test_server_and_model_are_described(server):
  assert ask(server.url, "/v2") == (
    200,
    {
      "name": "bert_tf",
      "version": bert_tf.__version__,
      "extensions": ["binary_tensor_data"],
    },
  )
  assert ask(server.url, "/v2/health/live") == (200, {"live": True})
  assert ask(server.url, "/v2/health/ready") == (200, {"ready": True})
  metadata = {
    "name": "model",
    "versions": ["7"],
    "platform": "tensorflow_savedmodel",
    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}],
    "outputs": [
      {"name": "length", "datatype": "INT32", "shape": [-1]},
      {"name": "echo", "datatype": "BYTES", "shape": [-1]},
    ],
  }
  for path in (MODEL, f"{MODEL}/versions/7"):
    assert ask(server.url, path) == (200, metadata)
    ready = {"name": "model", "ready": True}
    assert ask(server.url, f"{path}/ready") == (200, ready)


def test_tensors_are_answered_in_row_major_order(server):
  length = tensor("length", "INT32", [2], [2, 2])
  echo = tensor("echo", "BYTES", [2], ["ab", "ä"])
  answer = {"model_name": "model", "model_version": "7"}
  for path in (INFER, f"{MODEL}/versions/7/infer"):
    assert ask(server.url, path, request(TEXT, id="x 1")) == (
      200,
      {**answer, "id": "x 1", "outputs": [length, echo]},
    )
  chosen = request(TEXT, outputs=[{"name": "echo"}])
  assert ask(server.url, INFER, chosen) == (200, {**answer, "outputs": [echo]})


@pytest.mark.parametrize("ids", [[1, 2, 3, 4], [[1, 2], [3, 4]]])
def test_nested_and_flat_data_are_equal(server, ids):
  body = request(
    tensor("scale", "FP32", [2], [10, 0.5]),
    tensor("ids", "INT64", [2, 2], ids),
    name="wide",
  )
  code, response = ask(server.url, INFER, body)
  assert code == 200
  assert response["outputs"] == [
    tensor("scaled", "FP32", [2, 2], [10.0, 20.0, 1.5, 2.0])
  ]


NUMBERS = tensor("numbers", "INT32", [1, 2], [1, 2])


@pytest.mark.parametrize(
  ("body", "words"),
  [
    ({}, "inputs has to be a list"),
    (request(), "at least one"),
    (request({"name": "x"}), "'x'; the function has text"),
    (request(TEXT, TEXT), "text twice"),
    (request(TEXT | {"datatype": "FP32"}), "'FP32'; the function takes BYTES"),
    (request(TEXT | {"shape": [3]}), "[3] and 2 values"),
    (request(TEXT | {"shape": [True, 2]}), "the shape [True, 2]"),
    (request(TEXT | {"shape": [2, 1]}), "1 dimension"),
    (request(TEXT | {"data": ["a", 1]}), "not of expected type: string"),
    (request(TEXT | {"data": ["a", "b" * 10]}), "10 bytes"),
    (request(tensor("text", "BYTES", [0], [])), "no rows"),
    (request(tensor("text", "BYTES", [5], ["a"] * 5)), "5 rows"),
    (request(TEXT, id=3), "id is 3"),
    (request(TEXT, parameters=3), "parameters of the request"),
    (request(TEXT, name="none"), "none"),
    (request(TEXT, outputs=[{"name": "y"}]), "length, echo"),
    (request(NUMBERS | {"data": [1, 2**31]}, name="sums"), "out of range"),
    (request(NUMBERS | {"data": [1, 2.5]}, name="sums"), "int32"),
    (
      request(tensor("scale", "FP32", [1], [1]), name="wide"),
      "lacks the input ids",
    ),
    (
      request(
        tensor("scale", "FP32", [1], [1]),
        tensor("ids", "INT64", [2, 2], [1] * 4),
        name="wide",
      ),
      "different numbers of rows",
    ),
    (
      request(TEXT | {"parameters": {"binary_data_size": 4}}),
      "Inference-Header-Content-Length",
    ),
    (b"[1]", "is not a JSON object"),
    (b'{"inputs": %s}' % (b"[" * 5000), "JSON Parse error"),
  ],
  ids=lambda value: str(value)[-30:],
)
def test_mistakes_are_named(server, body, words):
  code, response = ask(server.url, INFER, body)
  assert (code, words in response["error"]) == (400, True), response


@pytest.mark.parametrize("path", ["/v2/models/x", f"{MODEL}/versions/8"])
def test_unknown_models_are_named(server, path):
  for end, body in (("", None), ("/ready", None), ("/infer", request(TEXT))):
    code, response = ask(server.url, path + end, body)
    assert code == 404 and "Servable not found" in response["error"]


def send_binary(server, header, tensors, length=None):
  """Sends a body with binary tensors; returns status, headers and body."""
  parsed = urllib.parse.urlsplit(server.url)
  connection = http.client.HTTPConnection(
    parsed.hostname, parsed.port, timeout=600
  )
  content = json.dumps(header).encode()
  size = str(len(content)) if length is None else length
  # tritonclient sends no Content-Type.
  headers = {"Inference-Header-Content-Length": size}
  connection.request("POST", INFER, content + tensors, headers)
  response = connection.getresponse()
  result = response.status, response.headers, response.read()
  connection.close()
  return result


def binary_input(name, datatype, shape, size):
  parameters = {"binary_data_size": size}
  described = {"name": name, "datatype": datatype, "shape": shape}
  return {**described, "parameters": parameters}


def test_binary_tensors_follow_the_json_both_ways(server):
  # Each text follows its length, a little-endian uint32.
  text = b"\x02\0\0\0ab" + b"\x02\0\0\0" + "ä".encode()
  outputs = [
    {"name": "echo", "parameters": {"binary_data": True}},
    {"name": "length", "parameters": {"binary_data": False}},
  ]
  header = request(binary_input("text", "BYTES", [2], 12), outputs=outputs)
  status, headers, body = send_binary(server, header, text)
  assert status == 200
  length = int(headers["Inference-Header-Content-Length"])
  echo, num_bytes = json.loads(body[:length])["outputs"]
  assert echo == binary_input("echo", "BYTES", [2], 12)
  assert num_bytes == tensor("length", "INT32", [2], [2, 2])
  assert body[length:] == text


def test_all_outputs_may_be_binary(server):
  header = request(
    tensor("scale", "FP32", [1], [0.5]),
    binary_input("ids", "INT64", [1, 2], 16),
  )
  header["parameters"] = {"signature_name": "wide", "binary_data_output": True}
  status, headers, body = send_binary(server, header, struct.pack("<2q", 3, -8))
  assert status == 200
  length = int(headers["Inference-Header-Content-Length"])
  assert struct.unpack("<2f", body[length:]) == (1.5, -4.0)


@pytest.mark.parametrize(
  ("size", "tensors", "length", "words"),
  [
    (12, b"\x02\0\0\0ab", None, "binary_data_size of input text is 12"),
    (6, b"\x02\0\0\0ab!", None, "1 bytes more"),
    (6, b"\x03\0\0\0ab", None, "longer than its tensor"),
    (2, b"\x03\0", None, "longer than its tensor"),
    (-1, b"", None, "is -1"),
    (True, b"a", None, "is True"),
    (6, b"\x02\0\0\0ab", "9999", "9999"),
    (6, b"\x02\0\0\0ab", "-1", "-1"),
    (6, b"\x02\0\0\0ab", "5", "JSON Parse error"),
  ],
)
def test_wrong_binary_tensors_are_refused(server, size, tensors, length, words):
  header = request(binary_input("text", "BYTES", [1], size))
  status, _, body = send_binary(server, header, tensors, length)
  assert status == 400 and words in json.loads(body)["error"]


def test_numbers_of_half_a_size_are_refused(server):
  header = request(binary_input("numbers", "INT32", [1, 1], 3), name="sums")
  status, _, body = send_binary(server, header, b"abc")
  assert status == 400 and "3 bytes" in json.loads(body)["error"]


def test_tritons_client_gets_the_outputs(server):
  triton = pytest.importorskip(
    "tritonclient.http", reason="pip install 'tritonclient[http]'"
  )
  client = triton.InferenceServerClient(server.url.removeprefix("http://"))
  assert client.is_server_live() and client.is_server_ready()
  assert client.is_model_ready("model", "7")
  assert not client.is_model_ready("other")
  assert client.get_server_metadata()["name"] == "bert_tf"
  [described] = client.get_model_metadata("model")["inputs"]
  text = triton.InferInput(described["name"], [2], described["datatype"])
  text.set_data_from_numpy(np.array(["ab", "ä"], object))
  result = client.infer("model", [text], request_id="9")
  assert result.get_response()["id"] == "9"
  assert result.as_numpy("length").tolist() == [2, 2]
  assert result.as_numpy("echo").tolist() == [b"ab", "ä".encode()]
  ids = triton.InferInput("ids", [1, 2], "INT64")
  ids.set_data_from_numpy(np.array([[3, -8]]))
  scale = triton.InferInput("scale", [1], "FP32")
  scale.set_data_from_numpy(np.array([0.5], np.float32), binary_data=False)
  result = client.infer(
    "model",
    [ids, scale],
    outputs=[triton.InferRequestedOutput("scaled", binary_data=False)],
    parameters={"signature_name": "wide"},
  )
  assert result.as_numpy("scaled").tolist() == [[1.5, -4.0]]
  with pytest.raises(triton.InferenceServerException, match="lacks"):
    client.infer("model", [ids], parameters={"signature_name": "wide"})
  client.close()
