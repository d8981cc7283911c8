"""Settings of the server. Does not import TensorFlow."""

import dataclasses
import functools
import socket

from bert_tf import settings

_limit = functools.partial(settings.setting, minimum=1, topic=settings.limits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerConfig:
  """Settings of the server."""

  host: str = settings.server(
    "127.0.0.1",
    "The address to listen on. The default accepts only this machine, since "
    "there is no encryption or password.",
    main=True,
  )
  port: int = settings.server(
    8501,
    "The port to listen on; 0 takes any free port.",
    minimum=0,
    maximum=65535,
    main=True,
  )
  max_batch_size: int = _limit(
    16, "The maximum number of rows in a batch; raise it on a GPU.", main=True
  )
  max_wait_ms: float = _limit(
    2.0,
    "How many milliseconds a request may wait for others to fill its batch.",
    minimum=0,
    main=True,
  )
  num_batch_threads: int = _limit(
    2, "How many batches are computed at the same time."
  )
  max_queue_size: int = _limit(
    256,
    "How many rows may wait besides those in the batches that are computed; "
    "while as many wait, new requests get status 503.",
    main=True,
  )
  max_stall_s: float = _limit(
    120.0,
    "How many seconds a batch may take. After that, its requests get status "
    "503 and /healthz fails.",
    minimum=1e-3,
  )
  max_rows: int = _limit(
    128, "The maximum number of rows in a request; more get status 400."
  )
  max_windows: int = _limit(
    512,
    "The maximum number of choices, or of windows of long texts, in a request; "
    "more get status 413.",
  )
  max_answer_values: int = _limit(
    1 << 22, "The maximum number of values in an answer; more get status 413."
  )
  max_request_bytes: int = _limit(
    1 << 20, "The maximum number of bytes in a request; more get status 413."
  )
  max_text_length: int = _limit(
    20000, "The maximum number of bytes in a text; more get status 400."
  )
  allowed_hosts: tuple[str, ...] = settings.server(
    (),
    "The host names to accept in the Host header besides the address and "
    "localhost, comma-separated.",
  )
  cors_origin: tuple[str, ...] = settings.server(
    (),
    "The origins, such as https://example.com, whose pages browsers let ask "
    "the server, comma-separated; * for all.",
  )
  log_format: str = settings.server(
    "none",
    "The format of the line that each request logs, without its texts.",
    choices=("none", "text", "json"),
    main=True,
  )
  # Maximum seconds for the body of a request to arrive.
  read_timeout_s: float = 30.0
  # Maximum seconds that a connection may be idle, and for the head of a request
  # to arrive.
  idle_timeout_s: float = 30.0
  stop_timeout_s: float = settings.server(
    30.0,
    "How many seconds running requests have to finish when the server stops.",
    minimum=0,
  )

  def __post_init__(self) -> None:
    settings.check(self)

  def listen(self) -> tuple[str, list[socket.socket]]:
    """Returns the server's URL, and an open socket for each address of `host`.

    Clients that connect before the server reads from them wait.

    Raises:
      OSError: if the port is in use, or the address is not of this machine.
    """
    try:
      infos = socket.getaddrinfo(
        self.host or None,
        self.port,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE,
      )
      opened = [
        socket.create_server(address, family=family, backlog=128)
        for family, *_, address in dict.fromkeys(infos)
      ]
    except OSError as error:
      raise OSError(
        f"cannot listen at `host={self.host}` and `port={self.port}`: "
        f"{error.strerror}."
      ) from error
    for each in opened:
      # Accepted sockets inherit it. uvicorn writes head and body separately, so
      # that the body would otherwise wait for the client's delayed ACK.
      each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    host, port = opened[0].getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}", opened
