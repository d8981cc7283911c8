"""Settings of the server. Does not import TensorFlow."""

import dataclasses
import functools

from bert_tf import settings

_limit = functools.partial(settings.setting, minimum=1, topic=settings.LIMITS)
_server = functools.partial(settings.setting, topic=settings.SERVER)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerConfig:
  """Settings of the server."""

  host: str = _server(
    "127.0.0.1",
    "Address to listen on. The default accepts only this machine; there is no "
    "encryption or password.",
    main=True,
  )
  port: int = _server(
    8501,
    "Port to listen on; 0 for any free port.",
    minimum=0,
    maximum=65535,
    main=True,
  )
  max_batch_size: int = _limit(
    16, "Maximum rows per batch; raise it on a GPU.", main=True
  )
  max_wait_ms: float = _limit(
    2.0,
    "Maximum milliseconds that a request waits for others to fill a batch.",
    minimum=0,
    main=True,
  )
  num_batch_threads: int = _limit(
    2, "Batches that are computed at the same time."
  )
  max_queue_size: int = _limit(
    256,
    "Maximum waiting requests; more are rejected with status 503.",
    main=True,
  )
  max_queue_s: float = _limit(
    1.0,
    "Maximum seconds that a request waits for its batch, while a full batch of "
    "others waits too. Then it is answered with status 503.",
    minimum=0,
  )
  max_stall_s: float = _limit(
    120.0,
    "Maximum seconds to compute a batch. After it, its requests get status "
    "503 and /healthz fails.",
    minimum=1e-3,
  )
  max_rows: int = _limit(
    128, "Maximum rows of a request; more are rejected with status 400."
  )
  max_windows: int = _limit(
    512,
    "Maximum windows of long texts, or choices, in a request; more are "
    "rejected with status 413.",
  )
  max_answer_values: int = _limit(
    1 << 22, "Maximum values of an answer; more are rejected with status 413."
  )
  max_request_bytes: int = _limit(
    1 << 20,
    "Maximum bytes of a request; larger ones are rejected with status 413.",
  )
  max_text_length: int = _limit(
    20000, "Maximum bytes of a text; longer ones are rejected with status 400."
  )
  max_connections: int = _server(
    256,
    "Maximum open connections; more are refused with status 503.",
    minimum=1,
  )
  allowed_hosts: tuple[str, ...] = _server(
    (),
    "Comma-separated host names to accept in the Host header, in addition to "
    "the address and localhost.",
  )
  log_format: str = _server(
    "none",
    "Format of a line on stdout for each request, without its texts.",
    choices=("none", "text", "json"),
    main=True,
  )
  # Maximum seconds for the body of a request to arrive.
  read_timeout_s: float = 30.0
  # Maximum seconds that a connection may be idle.
  idle_timeout_s: float = 30.0
  stop_timeout_s: float = _server(
    30.0,
    "Seconds for running requests to finish when the server stops.",
    minimum=0,
  )

  def __post_init__(self) -> None:
    settings.check(self)


def check_model_name(name: str) -> None:
  """Raises ValueError for a name that cannot be part of a path."""
  if not name or set(name) & set("/: "):
    raise ValueError(
      f"model_name {name!r} cannot be part of a path; remove slashes, colons "
      "and spaces."
    )
