"""What a request passes before it reaches the application.

The middleware checks its host and headers, reads its body within limits, and
ends its task when the client disconnects. It counts and logs every answer.
"""

import asyncio
import contextlib
import logging as std_logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
from absl import logging

from bert_tf.files import packages
from bert_tf.server import config as server_config
from bert_tf.server import metrics

with packages.needs_extra("serving", extra="serve"):
  from fastapi import exceptions
  from starlette import datastructures, requests, responses, types
  from starlette import exceptions as starlette_exceptions

# Path of OpenAI's API, whose errors have another form.
EMBEDDINGS_PATH = "/v1/embeddings"
# Status for clients that disconnect before their answer, as in nginx.
_GONE = 499
# A name, or an IPv6 address in brackets, and optionally a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\s]+))(?::[0-9]*)?", re.I)
_JSON = pydantic.TypeAdapter(Any, config={"ser_json_inf_nan": "constants"})


class HttpError(starlette_exceptions.HTTPException):
  """An error response with a message; `param` names the wrong parameter."""

  def __init__(
    self,
    status: int,
    message: str,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
  ) -> None:
    headers = dict(headers or {})
    if status == 503:
      headers.setdefault("Retry-After", "1")
    super().__init__(status, message, headers)
    self.param = param


def json_response(
  value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> responses.Response:
  """Returns a JSON response."""
  body = _JSON.dump_json(value) + b"\n"
  return responses.Response(
    body, status, headers, "application/json; charset=utf-8"
  )


def error_response(scope: types.Scope, error: Exception) -> responses.Response:
  """Returns the response to an exception, in OpenAI's form for its path."""
  error = _to_http_error(scope, error)
  # Clients may send surrogates, which UTF-8 cannot encode.
  message = error.detail.encode(errors="backslashreplace").decode()
  value: Any = message
  if scope["path"] == EMBEDDINGS_PATH:
    is_clients = error.status_code < 500
    kind = "invalid_request_error" if is_clients else "server_error"
    value = {"message": message, "type": kind, "param": error.param}
    value["code"] = "model_not_found" if error.status_code == 404 else None
  return json_response({"error": value}, error.status_code, error.headers)


def _to_http_error(scope: types.Scope, error: Exception) -> HttpError:
  if isinstance(error, HttpError):
    return error
  if isinstance(error, exceptions.RequestValidationError):
    first = error.errors()[0]
    fields = [str(part) for part in first["loc"][1:]]
    if first["type"] == "json_invalid":
      reason = first["ctx"]["error"]
      return HttpError(400, f"JSON Parse error: {reason} at offset {fields[0]}")
    message = first["msg"].removeprefix("Value error, ")
    where = ".".join(fields) or "JSON Value"
    return HttpError(400, f"{where}: {message}", fields[0] if fields else None)
  if isinstance(error, starlette_exceptions.HTTPException):
    message = "JSON Parse error: no UTF-8, or nested too deeply."
    if error.status_code != 400:
      place = f"{scope['method']} {scope['path']:.200}"
      message = f"Malformed request: {place}: {error.detail}"
    return HttpError(error.status_code, message, headers=error.headers)
  logging.error("A request failed:", exc_info=error)
  if isinstance(error, MemoryError):
    return HttpError(
      503, "the server has too little memory for the request; send fewer rows."
    )
  return HttpError(500, "the server failed, and its log tells the reason.")


class Middleware:
  """An ASGI application around another one.

  It stores `num_bytes`, the size of the body, in the scope of the request, and
  counts each answer. `num_connections` returns the number of open connections,
  and `check_open` raises HttpError if no request can be computed now.
  """

  def __init__(
    self,
    app: types.ASGIApp,
    config: server_config.ServerConfig,
    counted: metrics.Metrics,
    num_connections: Callable[[], int],
    check_open: Callable[[], None],
  ) -> None:
    self._app = app
    self._config = config
    self._metrics = counted
    self._num_connections = num_connections
    self._check_open = check_open
    hosts = ("localhost", "127.0.0.1", "::1", config.host)
    self._hosts = {host.lower() for host in (*hosts, *config.allowed_hosts)}
    # A handler goes on if the reader closes stdout.
    self._log = std_logging.Logger("bert_tf.server.access")
    self._log.addHandler(std_logging.StreamHandler(sys.stdout))

  async def __call__(
    self, scope: types.Scope, receive: types.Receive, send: types.Send
  ) -> None:
    """Answers a request."""
    start = time.monotonic()
    status, num_sent = _GONE, 0

    async def counting_send(message: types.Message) -> None:
      nonlocal status, num_sent
      status = message.get("status", status)
      num_sent += len(message.get("body", b""))
      await send(message)

    try:
      await self._answer(scope, receive, counting_send)
    except requests.ClientDisconnect:
      status = _GONE
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
      if status == _GONE:  # No answer has begun.
        if isinstance(error, asyncio.CancelledError):
          error = HttpError(503, "the server is stopping; ask another one.")
        response = error_response(scope, error)
        await response(scope, receive, counting_send)
    seconds = time.monotonic() - start
    # The loop logs an exception of counting; the request has been answered.
    loop = asyncio.get_running_loop()
    loop.call_soon(self._metrics.request, scope, status, seconds)
    if self._config.log_format != "none":
      line = {
        "remote": scope["client"][0],
        "method": scope["method"],
        # Percent-encoded, so that it has no line breaks.
        "path": scope["raw_path"].decode()[:200],
        "status": status,
        "milliseconds": round(seconds * 1e3, 2),
        "bytes": num_sent,
      }
      if "rows" in scope:
        line["rows"] = scope["rows"]
      self._log.info(metrics.log_line(self._config.log_format, line))

  async def _answer(
    self, scope: types.Scope, receive: types.Receive, send: types.Send
  ) -> None:
    self._check_headers(scope)
    limit = self._config.max_connections
    is_refused = self._num_connections() > limit
    body = await self._read(receive, is_refused)
    if is_refused:  # Only now: closing a socket with unread data resets it.
      raise HttpError(
        503,
        f"{limit} connections are open, which is the limit.",
        headers={"Connection": "close"},
      )
    if scope["method"] == "POST":
      self._check_open()  # Before the work of routing and parsing JSON.
    scope["num_bytes"] = len(body)
    unread = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> types.Message:
      return unread.pop() if unread else {"type": "http.disconnect"}

    answering = asyncio.ensure_future(self._app(scope, replay, send))
    gone = asyncio.ensure_future(receive())
    try:
      await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
      gone.cancel()
      answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
      await answering
      return
    raise requests.ClientDisconnect

  def _check_headers(self, scope: types.Scope) -> None:
    headers = datastructures.Headers(scope=scope)
    for name in headers.getlist("host") or [""]:  # Against DNS rebinding.
      match = _HOST.fullmatch(name)
      host = match[1] or match[2] if match else name
      if host.lower() not in self._hosts and host != scope["server"][0]:
        raise HttpError(
          403,
          f"the Host {name!r:.100} is not accepted; add it to the server's "
          "setting allowed_hosts.",
        )
    if scope["method"] != "POST":
      return
    # Browsers require a CORS preflight for JSON. Without this check, pages of
    # other sites could send JSON as plain text.
    kind = headers.get("content-type", "missing")
    if kind.partition(";")[0].strip().lower() != "application/json":
      raise HttpError(
        415, f"the Content-Type is {kind:.100}, not application/json."
      )
    self._check_size(int(headers.get("content-length", 0)))

  def _check_size(self, num_bytes: int) -> None:
    max_bytes = self._config.max_request_bytes
    if num_bytes > max_bytes:
      raise HttpError(413, f"the request is larger than {max_bytes} bytes.")

  async def _read(self, receive: types.Receive, is_refused: bool) -> bytes:
    """Returns the body; b"" if it is only read to refuse the request."""

    async def read() -> bytes:
      body, has_more = bytearray(), True
      while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
          raise requests.ClientDisconnect
        if not is_refused:
          body += message["body"]
          self._check_size(len(body))
        has_more = message["more_body"]
      return bytes(body)

    timeout = self._config.read_timeout_s
    try:
      return await asyncio.wait_for(read(), timeout)
    except asyncio.TimeoutError:
      raise HttpError(
        408,
        f"the request took more than {timeout:g} s to arrive.",
        headers={"Connection": "close"},
      ) from None
