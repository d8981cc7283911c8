"""Reads and parses the JSON bodies of requests, within the limits."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bert_tf.files import errors
from bert_tf.server import config as server_config
from bert_tf.server import limits, rest_json, workers

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

_Request = TypeVar("_Request")

# Larger bodies are parsed in a thread, to not delay other requests.
_LARGE_BYTES = 1 << 15


class Bodies:
  """Reads and parses the bodies of requests.

  Args:
    config: the limits.
    worker: parses large bodies.
  """

  def __init__(
    self,
    config: server_config.ServerConfig,
    worker: workers.Worker,
  ) -> None:
    self._config = config
    self._worker = worker

  async def parse(
    self,
    request: web.Request,
    parse: Callable[[Mapping[str, Any]], _Request],
  ) -> _Request:
    """Parses the JSON object of a request with `parse`.

    Raises:
      limits.HttpError: if the body cannot be read, or `parse` raises
        ValueError.
    """
    body = await self._read(request)

    def call() -> _Request:
      try:
        return parse(rest_json.parse(body))
      except RecursionError as error:
        raise limits.HttpError(
          400, "JSON Parse error: lists are nested too deeply."
        ) from error
      except ValueError as error:
        raise limits.HttpError(400, str(error)) from error

    if len(body) <= _LARGE_BYTES:
      return call()
    return await self._worker.run(call)

  async def _read(self, request: web.Request) -> bytes:
    """Returns the body of a request.

    Raises:
      limits.HttpError: for another type than JSON, or a body that is
        compressed, too large or too slow.
    """
    # Browsers require a CORS preflight for JSON. Without this check, pages of
    # other sites could send JSON as plain text.
    if request.content_type != "application/json":
      raise limits.HttpError(
        415,
        f"the Content-Type is {request.content_type:.100}; send "
        "application/json.",
      )
    codings = request.headers.getall("Content-Encoding", [])
    if any(coding.strip().lower() != "identity" for coding in codings):
      raise limits.HttpError(
        415,
        f"the Content-Encoding is {', '.join(codings):.100}; send the body "
        "uncompressed and without this header.",
      )
    max_bytes, timeout = (
      self._config.max_request_bytes,
      self._config.read_timeout_s,
    )
    try:
      if (request.content_length or 0) > max_bytes:
        raise web.HTTPRequestEntityTooLarge(max_bytes)
      return await asyncio.wait_for(request.read(), timeout)
    except web.HTTPRequestEntityTooLarge:
      raise limits.HttpError(
        413, f"the request is larger than {max_bytes} bytes."
      ) from None
    except asyncio.TimeoutError:
      raise limits.HttpError(
        408, f"the request took more than {timeout:g} s to arrive."
      ) from None
