"""Free ports of this machine."""

import socket


def free_port():
  with socket.socket() as opened:
    opened.bind(("127.0.0.1", 0))
    return opened.getsockname()[1]
