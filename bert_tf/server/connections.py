"""Connections of the server: opens its sockets, and completes uvicorn's.

uvicorn answers malformed HTTP with plain text, and limits neither the time nor
the size of the head of a request.
"""

import asyncio
import json
import socket
from typing import Any

from bert_tf.files import errors

with errors.needs_extra("serving", extra="serve"):
  import httptools
  from uvicorn.protocols.http import httptools_impl

# Bytes of a head that has not ended. Heads that arrive at once may be larger.
_MAX_HEAD = 1 << 14


class Connection(httptools_impl.HttpToolsProtocol):
  """A connection; it closes if the head of a request does not arrive in time.

  The limit is uvicorn's `timeout_keep_alive`, from the opening or the last
  answer to the end of the head.
  """

  _timer: asyncio.TimerHandle
  _head_size: int | None = 0  # None after the head of a request.

  def connection_made(self, transport: Any) -> None:
    """Begins to wait for the first request."""
    super().connection_made(transport)
    # uvicorn writes head and body separately. asyncio does not set this option
    # for sockets of socket.create_server.
    transport.get_extra_info("socket").setsockopt(
      socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
    )
    self._wait_for_head()

  def connection_lost(self, exc: Exception | None) -> None:
    """Ends the wait."""
    self._timer.cancel()
    super().connection_lost(exc)

  def data_received(self, data: bytes) -> None:
    """Reads a part of a request."""
    super().data_received(data)
    if self._head_size is not None:
      self._head_size += len(data)
      if self._head_size > _MAX_HEAD and not self.transport.is_closing():
        self.send_400_response("the head is too large")

  def on_headers_complete(self) -> None:
    """Starts the request; a host in its target counts as a header."""
    self._timer.cancel()
    self._head_size = None
    if host := httptools.parse_url(self.url).host:
      self.headers.append((b"host", host))
    super().on_headers_complete()

  def on_response_complete(self) -> None:
    """Begins to wait for the next request, unless it is here already."""
    super().on_response_complete()
    if self.cycle.response_complete:
      self._wait_for_head()

  def send_400_response(self, msg: str) -> None:
    """Answers malformed HTTP."""
    body = json.dumps({"error": f"Malformed request: {msg}"})
    head = (
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n"
      f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    self.transport.write(f"{head}{body}".encode())
    self.transport.close()

  def _wait_for_head(self) -> None:
    self._head_size = 0
    self._timer = self.loop.call_later(
      self.timeout_keep_alive, self.transport.close
    )


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
