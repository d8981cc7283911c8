"""Opens the sockets of the server. Does not import TensorFlow."""

import socket


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
    opened = [
      socket.create_server(address, family=family, backlog=128)
      for family, *_, address in dict.fromkeys(infos)
    ]
  except OSError as error:
    raise OSError(
      f"cannot listen at `host={host}` and `port={port}`: {error.strerror}."
    ) from error
  for each in opened:
    # Accepted sockets inherit it. uvicorn writes head and body separately, so
    # that the body would otherwise wait for the client's delayed ACK.
    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
  return opened
