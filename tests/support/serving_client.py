"""A server in a thread, and its client."""

import contextlib
import http.client
import json
import threading
import time
import urllib.parse
import urllib.request

from bert_tf.server import application
from bert_tf.server.config import ServerConfig


class Running:
  """A running server of one model, named "model", or of several by name.

  Attributes:
    url: address of the server.
    server: the application.Server.
  """

  def __init__(self, predictor, sockets=(), **config):
    is_one = hasattr(predictor, "tasks")
    models = {"model": predictor} if is_one else predictor
    settings = ServerConfig(port=0, **config)
    self.server = application.Server(models, settings)
    self.url, opened = settings.listen()
    self._thread = threading.Thread(
      target=self.server.uvicorn.run, args=[sockets or opened]
    )
    self._thread.start()

  def stop(self):
    """Asks the server to stop."""
    self.server.uvicorn.should_exit = True

  def join(self):
    """Waits until the server has stopped."""
    self._thread.join(timeout=600)
    assert not self._thread.is_alive()


@contextlib.contextmanager
def running(predictor, **config):
  """Runs a server in a thread until the context ends; yields a Running."""
  server = Running(predictor, **config)
  try:
    yield server
  finally:
    server.stop()
    server.join()


def wait_for_waiting(url, number):
  """Waits until `number` requests are waiting for a batch."""
  line = f"bert_tf_waiting_requests {number:.1f}"
  for _ in range(60_000):
    if line in metrics(url).splitlines():
      return
    time.sleep(0.01)
  raise AssertionError(f"{number} requests never wait")


def wait_for_status(url, status):
  """Waits until the metrics count a response with this HTTP status."""
  while f'status="{status}"' not in metrics(url):
    time.sleep(0.01)


def metrics(url):
  """Returns the metrics as text."""
  with urllib.request.urlopen(f"{url}/metrics", timeout=6000) as response:
    return response.read().decode()


class Client:
  """A persistent HTTP connection to a server."""

  def __init__(self, url):
    parsed = urllib.parse.urlsplit(url)
    self._connection = http.client.HTTPConnection(
      parsed.hostname, parsed.port, timeout=600
    )

  def send(self, path, body=None, method=None):
    """Sends a request; bodies other than bytes become JSON."""
    if body is not None and not isinstance(body, bytes):
      body = json.dumps(body).encode()
    method = method or ("GET" if body is None else "POST")
    headers = {"Content-Type": "application/json"} if body is not None else {}
    self._connection.request(method, path, body, headers)

  def ask(self, path, body=None, method=None):
    """Sends a request; returns HTTP status and decoded JSON of the response."""
    self.send(path, body, method)
    return self.receive()

  def receive(self):
    """Returns HTTP status and decoded JSON of the response to `send`."""
    response = self._connection.getresponse()
    self.headers = response.headers
    return response.status, json.loads(response.read())

  def close(self):
    self._connection.close()


def ask(url, path, body=None, method=None):
  """Sends a single request on a new connection; see Client.ask."""
  with contextlib.closing(Client(url)) as client:
    return client.ask(path, body, method)
