"""What a request passes before it reaches its route, and the form of errors.

The middleware checks its host and headers, refuses it if too many rows wait,
reads its body within limits, and ends its task when the client disconnects. It
counts and logs every answer.
"""

import asyncio
import contextlib
import logging as std_logging
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

import pydantic
from absl import logging

from bert_tf.files import packages
from bert_tf.server import metrics
from bert_tf.server.config import ServerConfig

with packages.needs_extra("serving", extra="serve"):
  from fastapi import exceptions
  from starlette import datastructures, requests, responses, types
  from starlette import exceptions as starlette_exceptions

# Path of OpenAI's API, whose errors have another form.
EMBEDDINGS_PATH = "/v1/embeddings"
# Status for clients that disconnect before their answer, as in nginx.
_CLIENT_GONE = 499
# A name, or an IPv6 address in brackets, and optionally a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\s]+))(?::[0-9]*)?", re.I)
_JSON: pydantic.TypeAdapter = pydantic.TypeAdapter(Any)


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
    value = {
      "message": message,
      "type": "invalid_request_error" if is_clients else "server_error",
      "param": error.param,
      "code": "model_not_found" if error.status_code == 404 else None,
    }
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
      request = f"{scope['method']} {scope['path']:.200}"
      message = f"Malformed request: {request}: {error.detail}"
    return HttpError(error.status_code, message, headers=error.headers)
  logging.error("A request failed:", exc_info=error)
  if isinstance(error, MemoryError):
    return HttpError(
      503, "the server has too little memory for the request; send fewer rows."
    )
  return HttpError(500, "the server failed, and its log tells the reason.")


class Middleware:
  """An ASGI application around another one.

  It stores `num_bytes`, the size of the body, in the scope of a request, and
  `waiting`, as how many inputs the request counts until it is answered. The
  application stores `rows` there, and the right number of `waiting` when it has
  parsed the body.
  """

  def __init__(
    self, app: types.ASGIApp, config: ServerConfig, counters: metrics.Metrics
  ) -> None:
    self._app = app
    self._config = config
    self._metrics = counters
    # The scopes of the requests that wait, by their id().
    self._waiting: dict[int, types.Scope] = {}
    num_computed = config.num_batch_threads * config.max_batch_size
    self._max_waiting = config.max_queue_size + num_computed
    hosts = ("localhost", "127.0.0.1", "::1", config.host)
    self._hosts = {host.lower() for host in (*hosts, *config.allowed_hosts)}
    # A handler goes on if the reader closes stdout.
    self._log = std_logging.Logger("bert_tf.server.access")
    self._log.addHandler(std_logging.StreamHandler(sys.stdout))

  async def __call__(
    self, scope: types.Scope, receive: types.Receive, send: types.Send
  ) -> None:
    """Answers a request."""
    if scope["type"] != "http":  # The start and the end of the server.
      return await self._app(scope, receive, send)
    start = time.monotonic()
    status, num_sent = _CLIENT_GONE, 0

    async def counting_send(message: types.Message) -> None:
      nonlocal status, num_sent
      status = message.get("status", status)
      num_sent += len(message.get("body", b""))
      await send(message)

    try:
      await self._answer(scope, receive, counting_send)
    except requests.ClientDisconnect:
      status = _CLIENT_GONE
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
      if status == _CLIENT_GONE:  # No answer has begun.
        if isinstance(error, asyncio.CancelledError):
          error = HttpError(503, "the server is stopping; ask another one.")
        response = error_response(scope, error)
        await response(scope, receive, counting_send)
    finally:
      self._waiting.pop(id(scope), None)
    seconds = time.monotonic() - start
    self._metrics.request(scope, status, seconds)
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
    headers = datastructures.Headers(scope=scope)
    refusal = self._find_refusal(scope, headers)
    # Probes, which have no body, are never refused.
    length = headers.get("content-length", "0")
    has_body = length != "0" or "transfer-encoding" in headers
    if has_body:
      refusal = refusal or self._find_overload(1)
      if not refusal:
        scope["waiting"] = 1
        self._waiting[id(scope)] = scope
    timeout = self._config.read_timeout_s
    try:
      body = await asyncio.wait_for(self._read(receive, refusal), timeout)
    except asyncio.TimeoutError:
      raise HttpError(
        408,
        f"the request took more than {timeout:g} s to arrive.",
        headers={"Connection": "close"},
      ) from None
    # Again, because several heads may arrive before a body is parsed.
    if has_body and (overload := self._find_overload(0)):
      raise overload
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

  def _find_refusal(
    self, scope: types.Scope, headers: datastructures.Headers
  ) -> HttpError | None:
    """Returns the error of a request that its head forbids."""
    for name in headers.getlist("host") or [""]:  # Against DNS rebinding.
      match = _HOST.fullmatch(name)
      host = match[1] or match[2] if match else name
      if host.lower() not in self._hosts and host != scope["server"][0]:
        return HttpError(
          403,
          f"the Host {name!r:.100} is not accepted; add it to the server's "
          "setting allowed_hosts.",
        )
    # Browsers require a CORS preflight for JSON. Without this check, pages of
    # other sites could send JSON as plain text.
    content_type = headers.get("content-type", "missing")
    kind = content_type.partition(";")[0].strip().lower()
    if scope["method"] == "POST" and kind != "application/json":
      return HttpError(
        415, f"the Content-Type is {content_type:.100}, not application/json."
      )
    return None

  def _find_overload(self, num_more: int) -> HttpError | None:
    """Returns the error of a request if too many inputs wait."""
    num_waiting = sum(scope["waiting"] for scope in self._waiting.values())
    if num_waiting + num_more <= self._max_waiting:
      return None
    return HttpError(
      503,
      f"{self._config.max_queue_size} rows are waiting, which is the limit; "
      "try again later.",
    )

  async def _read(
    self, receive: types.Receive, refusal: HttpError | None
  ) -> bytes:
    """Returns the body, or raises `refusal` or HttpError for a large one.

    All of the body is read before, since closing a socket with unread data
    resets it, and the client would not see the answer.
    """
    max_bytes = self._config.max_request_bytes
    body, has_more = bytearray(), True
    while has_more:
      message = await receive()
      if message["type"] == "http.disconnect":
        raise requests.ClientDisconnect
      has_more = message["more_body"]
      if not refusal:
        body += message["body"]
        if len(body) > max_bytes:
          text = f"the request is larger than {max_bytes} bytes."
          refusal = HttpError(413, text)
          body.clear()
    if refusal:
      raise refusal
    return bytes(body)
