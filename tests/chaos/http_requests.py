"""Sends malformed requests to a server in this process."""

import contextlib
import http.client
import json
import logging
import pathlib
import random
import socket
from collections.abc import Callable

import numpy as np
from absl import logging as absl_logging

import bert_tf
from tests.chaos import damage, outcomes
from tests.support import serving_client, tiny_models

_PREDICT = "/v1/models/model:predict"
_TEXTS = [f"{'the ' * (i % 5)}of {'and in ' * (i % 3)}to{i}" for i in range(12)]
_JUNK = [
  *("", "a", "\ud800", "\x00", "ä" * 40, "[" * 60, 0, -1, 1.5, 1e308, 1 << 70),
  *(None, True, [], {}, [[]], [None], {"b64": "/w=="}, {"b64": "x"}),
  *({"text": "a"}, {"text": ["a"]}, ["a", ["b"]], float("nan")),
]
_IDS = {"input_ids": [[2, 9, 3]], "input_mask": [[1] * 3]}
_IDS["segment_ids"] = [[0] * 3]
_HEADERS = ["Content-Type", "Content-Length", "Host", "Transfer-Encoding"]
_HEADERS += ["Content-Encoding", "Expect", "Connection", "X-\xe9"]
_VALUES = ["application/json", "text/plain", "-1", "5", "99999999999"]
_VALUES += ["chunked", "gzip", "100-continue", "close", "localhost"]
_VALUES += ["a" * 9000, "\x00", ""]
_METHODS = ["POST", "GET", "PUT", "DELETE", "HEAD", "PRI", "\x16\x03\x01", ""]
_PATHS = [_PREDICT, "/", "/health", "/v1/models/model", "/v1/models/x:predict"]
_PATHS += ["/v1/models/model/versions/9:predict", "/v1/models/model:attention"]
_PATHS += ["//", "/%00", "/..%2f", "*", "http://x/", "/" + "a" * 9000]

_ANSWERED = "answered rightly"
_REFUSED = "refused, as JSON"
_CLOSED = "no HTTP: refused or closed"


class _Alarms(logging.Handler):
  """Collects log messages that have a traceback, while its scope is open."""

  def __init__(self) -> None:
    super().__init__(logging.WARNING)
    self.messages: list[str] = []

  def __enter__(self) -> "_Alarms":
    for logger in (logging.getLogger(), absl_logging.get_absl_logger()):
      logger.addHandler(self)
    return self

  def __exit__(self, *error: object) -> None:
    for logger in (logging.getLogger(), absl_logging.get_absl_logger()):
      logger.removeHandler(self)

  def emit(self, record: logging.LogRecord) -> None:
    if record.exc_info or "Traceback" in record.getMessage():
      self.messages.append(f"logged: {record.getMessage()} {record.exc_info}")


def attack(num_tries: int, seed: int, folder: pathlib.Path) -> outcomes.Outcome:
  """Sends requests, most of them malformed, to a server in this process."""
  outcome = outcomes.Outcome("malformed requests to the server")
  rng = random.Random(seed)
  run = tiny_models.write_classifier(folder / "run")
  predictor = bert_tf.Predictor(str(run))
  answers = {
    text: answer["probabilities"]
    for text, answer in zip(_TEXTS, predictor.predict(_TEXTS))
  }
  limits = {"max_rows": 8, "max_request_bytes": 20_000, "read_timeout_s": 2}
  with (
    _Alarms() as alarms,
    serving_client.running(predictor, **limits) as server,
  ):
    client = _Client(server.url, answers)
    for index in range(num_tries):
      send = rng.choices(
        [client.send_odd_values, client.send_damaged, client.send_no_http],
        [6, 3, 1],
      )[0]
      result, fault = send(rng)
      fault = fault or "; ".join(alarms.messages)
      alarms.messages.clear()
      outcome.add(result, fault and f"request {index}: {fault}")
    client.close()
  return outcome


class _Client:
  """Sends requests and judges the responses.

  Args:
    url: address of the server.
    answers: the expected probabilities of each text, by label.
  """

  def __init__(self, url: str, answers: dict[str, dict[str, float]]) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    self._address = host, int(port)
    self._answers = answers
    self._connection = http.client.HTTPConnection(*self._address, timeout=600)

  def close(self) -> None:
    """Ends the connection."""
    self._connection.close()

  def send_odd_values(self, rng: random.Random) -> tuple[str, str]:
    """Sends JSON in which up to two values are replaced."""
    value = _valid(rng)
    for _ in range(rng.choice([0, 1, 1, 2])):
      value = _changed(value, rng)
    return self._post(json.dumps(value).encode(), value)

  def send_damaged(self, rng: random.Random) -> tuple[str, str]:
    """Sends a valid JSON request after changing some of its bytes."""
    body = damage.damaged(json.dumps(_valid(rng)).encode(), rng)
    try:
      value = json.loads(body)
    except (ValueError, RecursionError):
      value = None
    return self._post(body, value)

  def send_no_http(self, rng: random.Random) -> tuple[str, str]:
    """Sends HTTP with odd or damaged lines on a connection of its own."""
    body = json.dumps(_valid(rng)).encode()
    lines = [f"{rng.choice(_METHODS)} {rng.choice(_PATHS)} HTTP/1.1"]
    headers = [("Host", "localhost"), ("Content-Type", "application/json")]
    headers += [("Content-Length", str(len(body)))]
    for _ in range(rng.choice([0, 1, 2])):
      headers.append((rng.choice(_HEADERS), rng.choice(_VALUES)))
    lines += [f"{name}: {value}" for name, value in headers]
    data = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    if rng.random() < 0.5:
      data = damage.damaged(data, rng)
    with socket.create_connection(self._address, timeout=600) as connection:
      with contextlib.suppress(OSError):  # The server may close first.
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
      received = b""
      with contextlib.suppress(OSError):
        while part := connection.recv(1 << 16):
          received += part
    if b" 500 " in received.partition(b"\r\n")[0] or b"Traceback" in received:
      return "", f"{data[:300]!r}: {received[:300]!r}"
    return _CLOSED, ""

  def _post(self, body: bytes, value: object) -> tuple[str, str]:
    """Sends a body; returns the result and the fault, if any."""
    headers = {"Content-Type": "application/json"}
    try:
      self._connection.request("POST", _PREDICT, body, headers)
      response = self._connection.getresponse()
      content = response.read()
    except (OSError, http.client.HTTPException) as error:
      self._connection.close()
      return "", f"{body[:300]!r}: {error!r}"
    try:
      answer = json.loads(content)
    except ValueError:
      return "", f"{body[:300]!r}: no JSON: {content[:300]!r}"
    if response.status != 200:
      is_right = 400 <= response.status < 500 and list(answer) == ["error"]
      return _REFUSED, "" if is_right else f"{body[:300]!r}: {answer}"
    return _ANSWERED, self._find_wrong_answer(body, value, answer)

  def _find_wrong_answer(self, body: bytes, value: object, answer: dict) -> str:
    """Returns the fault in an answer to known texts, or an empty string."""
    rows = value.get("instances") if isinstance(value, dict) else None
    if not isinstance(rows, list):
      return ""
    if len(answer["predictions"]) != len(rows):
      return f"{body[:300]!r}: {len(answer['predictions'])} answers"
    for row, prediction in zip(rows, answer["predictions"]):
      text = row.get("text") if isinstance(row, dict) else row
      expected = self._answers.get(text) if isinstance(text, str) else None
      is_pair = isinstance(row, dict) and "text_b" in row
      if expected is None or is_pair:
        continue
      served = prediction["probabilities"]
      if served.keys() != expected.keys() or not np.allclose(
        [served[label] for label in expected], [*expected.values()], atol=1e-5
      ):
        return f"{body[:300]!r}: {prediction}, not {expected}"
    return ""


def _valid(rng: random.Random) -> dict:
  """Returns a valid request."""
  if rng.random() < 0.2:
    return {"signature_name": "ids", "inputs": dict(_IDS)}
  texts = rng.choices(_TEXTS, k=rng.randint(1, 4))
  form: Callable = rng.choice([str, lambda text: {"text": text}])
  return {"instances": list(map(form, texts))}


def _changed(value: object, rng: random.Random) -> object:
  """Returns a JSON value with one part replaced or one key renamed."""
  if isinstance(value, dict) and value and rng.random() < 0.85:
    name = rng.choice(list(value))
    if rng.random() < 0.15:
      changed = {n: v for n, v in value.items() if n != name}
      return {**changed, rng.choice(["x", "", "text_b", "inputs"]): value[name]}
    return {**value, name: _changed(value[name], rng)}
  if isinstance(value, list) and value and rng.random() < 0.85:
    index = rng.randrange(len(value))
    return [*value[:index], _changed(value[index], rng), *value[index + 1 :]]
  return rng.choice(_JUNK)
