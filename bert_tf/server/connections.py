"""Connections of the server: their limits and error responses.

aiohttp answers malformed HTTP with plain text and logs a traceback for each.
Here the answer is JSON, and only faults of the server are logged.
"""

import asyncio
import json
import logging
import socket
from typing import Any

from bert_tf.files import errors

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import abc, web

# Maximum refused connections that wait for the client to read the answer.
_MAX_REFUSED = 64
# Seconds until the server closes a refused connection.
_REFUSAL_TIMEOUT_S = 2.0

# Path of OpenAI's API, whose errors have another form.
EMBEDDINGS_PATH = "/v1/embeddings"

SERVER_FAILED = "the server failed; its log has the reason."


class Connection(web.RequestHandler):
  """A connection; beyond the limit it is answered with 503 and closed.

  Bodies are never decompressed, because a small body could expand to gigabytes
  and block the event loop. The handler rejects compressed bodies. `refused` are
  the refused connections that are still open.
  """

  __slots__ = ("_max_connections", "_refused", "_server")

  def __init__(
    self,
    server: web.Server,
    access_log: abc.AbstractAccessLogger,
    max_connections: int,
    refused: set[asyncio.Protocol],
    **arguments: Any,
  ) -> None:
    # aiohttp creates an access log for each connection.
    made: Any = lambda *_: access_log  # noqa: E731
    super().__init__(
      server,
      logger=logging.getLogger("bert_tf.server"),
      access_log_class=made,
      auto_decompress=False,
      **arguments,
    )
    self._server = server
    self._max_connections = max_connections
    self._refused = refused

  def connection_made(self, transport: Any) -> None:
    """Accepts the connection, or refuses it if too many are open."""
    if len(self._server.connections) < self._max_connections:
      super().connection_made(transport)
      return
    message = (
      f"{self._max_connections} connections are open, which is the limit."
    )
    body = json.dumps({"error": message})
    head = (
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
      f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n"
    )
    answer = f"{head}\r\n{body}".encode()
    protocol = _Refused(answer, self._refused)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)

  async def finish_response(
    self,
    request: web.BaseRequest,
    resp: web.StreamResponse,
    start_time: float | None,
  ) -> tuple[web.StreamResponse, bool]:
    """Sends a response; converts errors of aiohttp to JSON."""
    if isinstance(resp, web.HTTPException):
      error, message = resp, f"{request.method} {request.path:.200}"
      if isinstance(error, web.HTTPExpectationFailed):
        message = f"{error.text:.200}; send 100-continue."
      message = f"Malformed request: {message}"
      resp = error_response(request, error.status, message)
      if allow := error.headers.get("Allow"):
        resp.headers["Allow"] = allow
    return await super().finish_response(request, resp, start_time)

  def handle_error(
    self,
    request: web.BaseRequest,
    status: int = 500,
    exc: BaseException | None = None,
    message: str | None = None,
  ) -> web.StreamResponse:
    """Returns the JSON response to malformed HTTP or an internal error."""
    if status >= 500 and not is_gone(request):
      self.log_exception(
        "Status %d to %s", status, request.remote, exc_info=exc
      )
    if request.writer.output_size > 0:
      raise ConnectionError("A part of the response has been sent.")
    lines = (message or "the server failed").strip().splitlines()
    response = error_response(
      request, status, f"Malformed request: {lines[0]:.200}"
    )
    if status >= 500:
      response = error_response(request, status, SERVER_FAILED)
    response.force_close()
    return response


class _Refused(asyncio.Protocol):
  """Ends a connection with an answer and gives the client 2 s to close it.

  Its data are read and dropped: closing a socket with unread data would reset
  the connection, and the client would lose the answer.
  """

  def __init__(self, answer: bytes, refused: set[asyncio.Protocol]) -> None:
    self._answer = answer
    self._refused = refused

  def connection_made(self, transport: Any) -> None:
    """Sends the answer."""
    transport.write(self._answer)
    if len(self._refused) >= _MAX_REFUSED:
      transport.close()
      return
    self._refused.add(self)
    transport.write_eof()
    loop = asyncio.get_running_loop()
    loop.call_later(_REFUSAL_TIMEOUT_S, transport.close)

  def connection_lost(self, exc: Exception | None) -> None:
    """Removes this connection from the refused ones."""
    self._refused.discard(self)


def is_gone(request: web.BaseRequest) -> bool:
  """Returns whether the client of a request has closed its connection."""
  return request.transport is None or request.transport.is_closing()


def listen(host: str, port: int) -> list[socket.socket]:
  """Opens the sockets of a server, one for each address of `host`.

  Clients that connect before the server reads from them wait.

  Raises:
    OSError: if the port is in use, or the address is not of this machine.
  """
  try:
    infos = socket.getaddrinfo(
      host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return [
      socket.create_server(address, family=family, backlog=128)
      for family, *_, address in dict.fromkeys(infos)
    ]
  except OSError as error:
    raise OSError(
      f"cannot listen at `host={host}` and `port={port}`: {error.strerror}."
    ) from error


def error_response(
  request: web.BaseRequest,
  status: int,
  message: str,
  retry_after_s: int = 1,
  param: str | None = None,
  code: str | None = None,
) -> web.Response:
  """Returns the response {"error": message}; 503 includes Retry-After.

  For paths of OpenAI's API, "error" is an object of message, type, param and
  code.
  """
  error: Any = message
  if request.path == EMBEDDINGS_PATH:
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": param, "code": code}
  response = json_response({"error": error}, status)
  if status == 503:
    response.headers["Retry-After"] = str(retry_after_s)
  return response


def json_response(value: Any, status: int = 200) -> web.Response:
  """Returns a JSON response in TensorFlow Serving's format."""
  text = _json(value) + "\n"
  # UTF-8 cannot encode surrogates, so they are escaped as in JSON: \ud800.
  body = text.encode("utf-8", errors="backslashreplace")
  return web.Response(
    body=body, status=status, content_type="application/json", charset="utf-8"
  )


def _json(value: Any) -> str:
  """Returns a value as JSON, like json.dumps, but in many short calls.

  One call of json.dumps with millions of numbers blocks other threads for
  seconds.
  """
  if isinstance(value, dict):
    items = (f"{_json(name)}: {_json(item)}" for name, item in value.items())
    return f"{{{', '.join(items)}}}"
  if isinstance(value, list) and value and isinstance(value[0], dict | list):
    return f"[{', '.join(map(_json, value))}]"
  return json.dumps(value, ensure_ascii=False)
