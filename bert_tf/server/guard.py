"""Rejects requests whose Host is not accepted; answers errors in JSON."""

import functools
import re
from collections.abc import Awaitable, Callable, Iterable

import tensorflow as tf
from absl import logging

from bert_tf.files import errors
from bert_tf.server import batching, connections, limits, workers

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A name, or an IPv6 address in brackets, and optionally a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\s]+))(?::[0-9]*)?", re.I)


class Guard:
  """Middleware that checks the Host and turns exceptions into responses.

  Args:
    hosts: accepted names and addresses in the Host header.
    is_stopping: returns whether to close connections after their answer.
  """

  def __init__(
    self, hosts: Iterable[str], is_stopping: Callable[[], bool]
  ) -> None:
    self._hosts = {host.lower() for host in hosts}
    self._is_stopping = is_stopping

  @web.middleware
  async def check_and_answer(
    self, request: web.Request, handler: _Handler
  ) -> web.StreamResponse:
    """Answers a request; errors become JSON responses."""
    try:
      self._check_host(request)
      response = await handler(request)
    except (ConnectionError, web.HTTPException):
      raise  # The client is gone, or connections.py answers.
    except Exception as error:  # noqa: BLE001  All requests get an answer.
      response = _error_response(request, error)
    if self._is_stopping():
      response.force_close()
    return response

  def _check_host(self, request: web.Request) -> None:
    """Raises HttpError 403 unless the host is accepted, against DNS rebinding.

    Checks the Host header and `request.host`, which may be the host in the
    request target.
    """
    address = request.get_extra_info("sockname", ("",))[0]
    for name in (*request.headers.getall("Host", []), request.host):
      match = _HOST.fullmatch(name)
      host = match[1] or match[2] if match else name
      if host.lower() not in self._hosts and host != address:
        raise limits.HttpError(
          403,
          f"the Host {name!r:.100} is not accepted; the server's setting "
          "allowed_hosts adds host names.",
        )


def _error_response(request: web.Request, error: Exception) -> web.Response:
  """Returns the response to a failed request; logs internal errors."""
  respond = functools.partial(connections.error_response, request)
  if isinstance(error, limits.HttpError):
    return respond(error.status, str(error), param=error.param, code=error.code)
  if isinstance(error, web.RequestPayloadError):
    message = f"Malformed request: the body is incomplete: {error}"
    return respond(400, message)
  if isinstance(error, batching.OverloadedError):
    return respond(503, str(error), error.retry_after_s)
  if isinstance(error, batching.EndedError | workers.StalledError):
    return respond(503, str(error))
  if isinstance(error, tf.errors.InvalidArgumentError):
    return respond(400, errors.reason(error))
  logging.error("A request failed:", exc_info=error)
  if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
    return respond(
      503, "the server has too little memory for the request; send fewer rows."
    )
  if isinstance(error, tf.errors.OpError):
    return respond(500, errors.reason(error))
  return respond(500, connections.SERVER_FAILED)
