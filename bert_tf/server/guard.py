"""Refuses requests for other hosts, and answers every error in JSON."""

import re
from collections.abc import Awaitable, Callable, Iterable

import tensorflow as tf
from absl import logging

from bert_tf.files import errors
from bert_tf.server import batching, connections, limits

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A name, or an IPv6 address in brackets, and perhaps a port; nothing else.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\s]+))(?::[0-9]*)?", re.I)
_FAULT = "the server failed; its log says why."


class Guard:
  """Stands before all handlers.

  Args:
    hosts: names and addresses under which clients may ask for this server.
    is_stopping: returns whether connections should end after their answer.
  """

  def __init__(
    self, hosts: Iterable[str], is_stopping: Callable[[], bool]
  ) -> None:
    self._hosts = {host.lower() for host in hosts}
    self._is_stopping = is_stopping

  @web.middleware
  async def guarded(
    self, request: web.Request, handler: _Handler
  ) -> web.StreamResponse:
    """Answers a request, with an error in JSON if it fails."""
    try:
      self._check_host(request)
      response = await handler(request)
    except (ConnectionError, web.HTTPException):
      raise  # Nobody is there to answer; connections.py answers the others.
    except Exception as error:  # noqa: BLE001  Every request is answered.
      response = _error_response(error)
    if self._is_stopping():
      response.force_close()
    return response

  def _check_host(self, request: web.Request) -> None:
    """Refuses other hosts' names: of pages that rebind theirs to this address.

    The target of a request, which `request.host` prefers, may name a host too.
    """
    address = request.get_extra_info("sockname", ("",))[0]
    for name in (*request.headers.getall("Host", []), request.host):
      match = _HOST.fullmatch(name)
      host = match[1] or match[2] if match else name
      if host.lower() not in self._hosts and host != address:
        raise limits.HttpError(
          403,
          f"the Host {name!r:.100} is not this server's; its setting "
          "allowed_hosts names others.",
        )


def _error_response(error: Exception) -> web.Response:
  """Returns the response to a request that failed; logs faults of ours."""
  respond = connections.error_response
  if isinstance(error, limits.HttpError):
    return respond(error.status, str(error))
  if isinstance(error, web.RequestPayloadError):
    message = f"Malformed request: the body is not whole: {error}"
    return respond(400, message)
  if isinstance(error, batching.OverloadedError):
    return respond(503, str(error), error.retry_after_s)
  if isinstance(error, batching.EndedError):
    return respond(503, str(error))
  if isinstance(error, tf.errors.InvalidArgumentError):
    return respond(400, errors.reason(error))
  logging.error("A request failed:", exc_info=error)
  if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
    return respond(
      503, "the server has too little memory for the request; send fewer rows."
    )
  is_of_model = isinstance(error, tf.errors.OpError)
  return respond(500, errors.reason(error) if is_of_model else _FAULT)
