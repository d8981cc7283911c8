"""Tests for many connections, incomplete requests and other hosts."""

import contextlib
import json
import logging
import socket
import urllib.parse

import pytest

from tests.support import fake_model, serving_client

PREDICT = fake_model.PREDICT
BODY = b'{"instances": ["ab"]}'


@pytest.fixture(scope="module")
def server():
  with serving_client.running(
    fake_model.FakeModel(),
    allowed_hosts=("bert.example",),
  ) as running:
    yield running


def connected(url):
  address = urllib.parse.urlsplit(url)
  return socket.create_connection((address.hostname, address.port), timeout=600)


def received(opened):
  """Returns all bytes until the server closes the connection."""
  parts = []
  while part := opened.recv(1 << 16):
    parts.append(part)
  return b"".join(parts)


def sent(url, raw):
  """Sends raw bytes and returns (status, object)."""
  with connected(url) as opened:
    opened.sendall(raw)
    head, _, body = received(opened).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def request(*headers, body=BODY, path=PREDICT):
  """Returns a request with these headers in addition to its length."""
  lines = [f"POST {path} HTTP/1.1", *headers, "Connection: close"]
  lines += [f"Content-Length: {len(body)}", "", ""]
  return "\r\n".join(lines).encode() + body


HOST = "Host: localhost"
JSON = "Content-Type: application/json"


def chunked(body):
  """Returns a request without the length of its body."""
  head = f"POST {PREDICT} HTTP/1.1\r\n{HOST}\r\n{JSON}\r\nConnection: close\r\n"
  head += f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n"
  return head.encode() + body + b"\r\n0\r\n\r\n"


def nested(depth):
  return ('{"instances": ' + "[" * depth + "]" * depth + "}").encode()


@pytest.mark.parametrize(
  ("raw", "status"),
  [
    (request(HOST, JSON), 200),
    (request("Host: bert.example:80", "Content-Type: application/json"), 200),
    (request(HOST, "Content-Type: application/json; charset=utf-8"), 200),
    (request("Host: evil.example", JSON), 403),
    (request(HOST), 415),
    (request("Host: localhost:80.evil.com", JSON), 403),
    (request("Host: evil.com", JSON, path=f"http://localhost{PREDICT}"), 403),
    (request(HOST, JSON, body=b'{"signature_name": "\\ud800"}'), 400),
    (request(HOST, JSON, body=nested(50_000)), 400),
    (request(HOST, JSON, body=b" " * 20_000_000), 413),
    (chunked(b" " * 20_000_000), 413),
    (chunked(BODY), 200),
    (request("Host: evil.com", JSON, body=b" " * 20_000_000), 403),
  ],
  ids=lambda value: str(value)[:60],
)
def test_every_answer_is_json(server, raw, status):
  result, value = sent(server.url, raw)
  assert (result, "error" in value) == (status, status != 200)


@pytest.mark.parametrize(
  "raw",
  [
    b"no HTTP at all\r\n\r\n",
    request("Host localhost"),
    request(HOST, "Content-Length: -1"),
    b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  ],
)
def test_malformed_http_is_refused_and_does_not_fill_the_log(
  server, raw, caplog
):
  with caplog.at_level(logging.INFO), connected(server.url) as opened:
    opened.sendall(raw)
    assert received(opened).startswith(b"HTTP/1.1 400 ")
  assert not caplog.records


@pytest.mark.parametrize(
  "sent_bytes", [b"", b"POST ", request(HOST, JSON)[:60]], ids=repr
)
def test_a_connection_without_a_whole_head_is_closed(sent_bytes):
  with (
    serving_client.running(
      fake_model.FakeModel(), idle_timeout_s=1.0, max_queue_size=1
    ) as running,
    contextlib.ExitStack() as stack,
  ):
    opened = [stack.enter_context(connected(running.url)) for _ in range(20)]
    for connection in opened[:10]:  # The first or the second request.
      connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
      while not connection.recv(1000).endswith(b"}\n"):
        pass
    for connection in opened:
      connection.sendall(sent_bytes)
    # Connections without a request do not count.
    body = {"instances": ["ab"]}
    assert serving_client.ask(running.url, PREDICT, body)[0] == 200
    assert [received(connection) for connection in opened] == [b""] * 20


def test_windows_of_a_request_are_limited():
  model = fake_model.FakeModel(text=fake_model.Windows())
  with serving_client.running(model, max_windows=4) as running:
    texts = {"instances": ["a b c", "d"]}
    assert serving_client.ask(running.url, PREDICT, texts)[0] == 200
    texts = {"instances": ["a b c", "d e"]}
    code, response = serving_client.ask(running.url, PREDICT, texts)
    assert (code, "5 windows" in response["error"]) == (413, True)


def test_a_client_that_disconnects_in_its_body_counts_as_499():
  with serving_client.running(fake_model.FakeModel()) as running:
    with connected(running.url) as opened:
      opened.sendall(request(HOST, JSON, body=BODY)[:-5])
    serving_client.wait_for_status(running.url, 499)


def test_refused_requests_get_an_answer_and_health_is_not_refused():
  model = fake_model.FakeModel()
  limits = {"max_batch_size": 1, "max_queue_size": 1, "num_batch_threads": 1}
  with (
    serving_client.running(model, **limits) as running,
    contextlib.ExitStack() as stack,
  ):
    stack.callback(model.gate.set)
    model.gate.clear()
    for _ in range(2):  # One is computed and one waits.
      stack.enter_context(connected(running.url)).sendall(request(HOST, JSON))
    serving_client.wait_for_waiting(running.url, 1)
    opened = [stack.enter_context(connected(running.url)) for _ in range(20)]
    for connection in opened:
      connection.sendall(request(HOST, JSON, body=b"x" * 100_000))
    for connection in opened:
      assert received(connection).startswith(b"HTTP/1.1 503 ")
    assert serving_client.ask(running.url, "/healthz")[0] == 200
    client = serving_client.Client(running.url)
    assert client.ask(PREDICT, {"instances": ["late"]})[0] == 503
    assert client.headers["Retry-After"] == "1"
    client.close()
    # A body counts, whatever the method: it may arrive slowly.
    with connected(running.url) as opened:
      opened.sendall(request(HOST).replace(b"POST", b"GET"))
      assert received(opened).startswith(b"HTTP/1.1 503 ")


def test_a_large_request_in_the_queue_counts_as_one_batch():
  model = fake_model.FakeModel()
  limits = {"max_batch_size": 2, "max_queue_size": 1, "num_batch_threads": 1}
  large = json.dumps({"instances": ["ab"] * 100}).encode()
  with (
    serving_client.running(model, **limits) as running,
    contextlib.ExitStack() as stack,
  ):
    stack.callback(model.gate.set)
    model.gate.clear()
    opened = [stack.enter_context(connected(running.url)) for _ in range(3)]
    for number, connection in enumerate(opened):
      body = BODY if number else large
      connection.sendall(request(HOST, JSON, body=body))
      if number < 2:
        serving_client.wait_for_waiting(running.url, number + 1)
    assert received(opened[2]).startswith(b"HTTP/1.1 503 ")
    model.gate.set()
    for connection in opened[:2]:
      assert received(connection).startswith(b"HTTP/1.1 200 ")
