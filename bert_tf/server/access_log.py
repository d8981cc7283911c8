"""Logs each request in a line and counts it in the metrics."""

import asyncio
import datetime
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bert_tf.files import errors
from bert_tf.server import connections, metrics

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import abc, web

# Number of rows of a `:predict` request; other requests have none.
NUM_ROWS = web.RequestKey("num_rows", int)
# Pattern of the path, such as /v1/models/{name}. Malformed requests and those
# for unknown paths have none.
_ROUTE = web.RequestKey("route", str)

# Status for clients that disconnect before their answer, as in nginx.
_GONE = 499

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class AccessLog(abc.AbstractAccessLogger):
  """Counts and logs answers, even to malformed HTTP; aiohttp calls `log`.

  Args:
    counted: metrics that count each answer.
    log_format: "none", "text" or "json": the format of lines on stdout.
  """

  def __init__(self, counted: metrics.Metrics, log_format: str) -> None:
    super().__init__(logging.Logger("bert_tf.server.access"), log_format)
    self.logger.addHandler(logging.StreamHandler(sys.stdout))
    self._metrics = counted

  def log(
    self, request: web.BaseRequest, response: web.StreamResponse, time: float
  ) -> None:
    """Counts and logs an answer; 499 if the client left before its end."""
    status = _GONE if connections.is_gone(request) else response.status
    self._metrics.request(
      request.method if request.method in _METHODS else "other",
      request.get(_ROUTE, "other"),
      status,
      time,
    )
    if self.log_format == "none":
      return
    line: dict[str, Any] = {  # Without the texts of the request.
      "time": _now(),
      "remote": request.remote,
      "method": request.method,
      # Percent-encoded, so that it has no line breaks.
      "path": request.rel_url.raw_path[:200],
      "status": status,
      "milliseconds": round(time * 1e3, 2),
      "bytes": response.body_length,
    }
    if NUM_ROWS in request:
      line["rows"] = request[NUM_ROWS]
    if self.log_format == "json":
      self.logger.info("%s", json.dumps(line))
    else:
      self.logger.info("%s", " ".join(f"{k}={v}" for k, v in line.items()))

  @web.middleware
  async def store_route(
    self,
    request: web.Request,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
  ) -> web.StreamResponse:
    """Stores the pattern of the path, under which a request is counted.

    Also logs cancelled requests, which aiohttp does not.
    """
    start = time.monotonic()
    if resource := request.match_info.route.resource:
      request[_ROUTE] = resource.canonical
    try:
      return await handler(request)
    except asyncio.CancelledError:
      seconds = time.monotonic() - start
      self.log(request, web.Response(status=_GONE), seconds)
      raise


def started_line(url: str, folders: Mapping[str, str]) -> str:
  """Returns the first line of a JSON log: address, and folders by model."""
  return json.dumps(
    {"time": _now(), "event": "started", "url": url, "models": dict(folders)}
  )


def _now() -> str:
  now = datetime.datetime.now(datetime.timezone.utc)
  return now.isoformat(timespec="milliseconds")
