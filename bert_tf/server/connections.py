"""Connections of the server: how many, for how long, and how they fail.

aiohttp answers malformed HTTP with plain text and logs a traceback for each;
here the answer is JSON, and the log has a line, of at most some a second.
"""

import json
import logging
import os
import time
from typing import Any

from bert_tf.files import errors

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import abc, web

# Lines of the log in a second about clients' mistakes.
_LINES_PER_SECOND = 5
# Descriptors that are left to files and to the next connection.
_SPARE_DESCRIPTORS = 16

_Log = logging.getLogger("bert_tf.server")


class _ShortLines(logging.Filter):
  """Cuts records to a line, and drops those of a flood."""

  def __init__(self) -> None:
    super().__init__()
    self._second = self._num_lines = self._num_dropped = 0

  def filter(self, record: logging.LogRecord) -> bool:
    """Returns whether the record is logged; its traceback never is."""
    second = int(time.monotonic())
    if second != self._second:
      self._second, self._num_lines = second, 0
    self._num_lines += 1
    if self._num_lines > _LINES_PER_SECOND:
      self._num_dropped += 1
      return False
    text = record.getMessage()
    if isinstance(record.exc_info, tuple) and record.exc_info[1]:
      text += f": {' '.join(str(record.exc_info[1]).split()):.200}"
    if self._num_dropped:
      text += f" (and {self._num_dropped} more before)"
      self._num_dropped = 0
    record.msg, record.args = text, ()
    record.exc_info = record.exc_text = None
    return True


_Log.addFilter(_ShortLines())


class Connection(web.RequestHandler):
  """A connection; one beyond the limit is answered with 503 and closed.

  Args:
    server: of the runner, which knows all connections.
    access_log: is told of every answer.
    max_connections: that may be open.
    **arguments: of aiohttp's RequestHandler.
  """

  __slots__ = ("_max_connections", "_server")

  def __init__(
    self,
    server: web.Server,
    access_log: abc.AbstractAccessLogger,
    max_connections: int,
    **arguments: Any,
  ) -> None:
    # aiohttp makes one of each connection.
    made: Any = lambda *_: access_log  # noqa: E731
    super().__init__(server, logger=_Log, access_log_class=made, **arguments)
    self._server = server
    self._max_connections = max_connections

  def connection_made(self, transport: Any) -> None:
    """Refuses the connection if there are too many."""
    super().connection_made(transport)
    if len(self._server.connections) > self._max_connections:
      transport.write(_refusal(self._max_connections))
      transport.close()
      _Log.warning(
        "%d connections are open; refused one", self._max_connections
      )

  def handle_error(
    self,
    request: web.BaseRequest,
    status: int = 500,
    exc: BaseException | None = None,
    message: str | None = None,
  ) -> web.StreamResponse:
    """Returns the JSON response to what is no HTTP, or to a fault of ours."""
    self.log_exception("Status %d to %s", status, request.remote, exc_info=exc)
    if request.writer.output_size > 0:
      raise ConnectionError("A part of the response has been sent.")
    lines = (message or "the server failed").strip().splitlines()
    response = error_response(status, f"Malformed request: {lines[0]:.200}")
    if status >= 500:
      response = error_response(status, "the server failed; its log says why.")
    response.force_close()
    return response


def max_connections(wanted: int) -> int:
  """Returns how many connections the process has descriptors for.

  Args:
    wanted: the most that may be open.
  """
  try:
    import resource
  except ImportError:  # On Windows, which has no such limit.
    return wanted
  # The lowest that is free: about as many are in use.
  first_free = os.open(os.devnull, os.O_RDONLY)
  os.close(first_free)
  limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
  return max(1, min(wanted, limit - first_free - _SPARE_DESCRIPTORS))


def error_response(status: int, message: str) -> web.Response:
  """Returns `{"error": message}`."""
  return json_response({"error": message}, status)


def json_response(value: Any, status: int = 200) -> web.Response:
  """Returns a response as TensorFlow Serving writes it."""
  text = _json(value) + "\n"
  # Half a character, which UTF-8 cannot hold, is written as JSON's \ud800.
  body = text.encode("utf-8", errors="backslashreplace")
  return web.Response(
    body=body, status=status, content_type="application/json", charset="utf-8"
  )


def _json(value: Any) -> str:
  """Returns what json.dumps does, in calls that are short.

  Other threads wait while json.dumps runs, seconds for millions of numbers.
  """
  if isinstance(value, dict):
    items = (f"{_json(name)}: {_json(item)}" for name, item in value.items())
    return f"{{{', '.join(items)}}}"
  if isinstance(value, list) and value and isinstance(value[0], dict | list):
    return f"[{', '.join(map(_json, value))}]"
  return json.dumps(value, ensure_ascii=False)


def _refusal(limit: int) -> bytes:
  body = json.dumps({"error": f"{limit} connections are open, the most."})
  head = (
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n"
  )
  return f"{head}\r\n{body}".encode()
