"""Settings of the server. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings

LOG_FORMATS = ("none", "text", "json")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerConfig:
  """Settings of the server."""

  host: str = settings.setting(
    "127.0.0.1",
    "Address to listen at. Only this machine reaches the default; there is "
    "neither encryption nor a password.",
  )
  port: int = settings.setting(
    8501, "Port to listen at; 0 for any that is free.", minimum=0, maximum=65535
  )
  max_batch_size: int = settings.setting(
    16,
    "Rows that are computed together; more is worth it on a GPU.",
    minimum=1,
  )
  max_wait_ms: float = settings.setting(
    2.0,
    "Milliseconds that a request waits for others to be computed with.",
    minimum=0,
  )
  max_queue_size: int = settings.setting(
    256,
    "Requests that may wait; more are refused with status 503.",
    minimum=1,
  )
  max_expected_wait_s: float = settings.setting(
    1.0,
    "Seconds that a request may wait for the requests before it, estimated "
    "from the last batches. Requests that would wait longer are refused with "
    "status 503, unless the next batch has room.",
    minimum=0,
  )
  max_rows: int = settings.setting(
    128, "Rows of a request; more are refused with status 400.", minimum=1
  )
  max_windows: int = settings.setting(
    512,
    "Windows of long texts that a request may need, counted as if each byte "
    "were a word piece, or choices of all its rows; more are refused with "
    "status 413.",
    minimum=1,
  )
  max_answer_values: int = settings.setting(
    1 << 22,
    "Numbers and texts of an answer; larger answers are refused with status "
    "413.",
    minimum=1,
  )
  max_request_bytes: int = settings.setting(
    1 << 20,
    "Bytes of a request; larger ones are refused with status 413.",
    minimum=1,
  )
  max_text_length: int = settings.setting(
    20000,
    "Bytes of a text in UTF-8; longer ones are refused with status 400.",
    minimum=1,
  )
  max_connections: int = settings.setting(
    256,
    "Connections that may be open; more are refused with status 503. The "
    "process needs a file descriptor for each.",
    minimum=1,
  )
  allowed_hosts: tuple[str, ...] = settings.setting(
    (),
    "Names, beside its address and localhost, under which clients may ask "
    "for this server, with commas between them.",
  )
  log_format: str = settings.setting(
    "none",
    "A line on stdout for each request, without its texts: none, text or json.",
    choices=LOG_FORMATS,
  )
  # Maximum seconds for the body of a request to arrive.
  read_timeout_s: float = 30.0
  # Maximum seconds that a connection may be idle.
  idle_timeout_s: float = 30.0
  stop_timeout_s: float = settings.setting(
    30.0,
    "Seconds that running requests have to end when the server is stopped.",
    minimum=0,
  )

  def __post_init__(self) -> None:
    """Raises ValueError for a value out of range."""
    settings.check(self)


def check_model_name(name: str) -> None:
  """Raises ValueError for a name that cannot be part of a path."""
  if not name or set(name) & set("/: "):
    raise ValueError(
      f"model_name {name!r} cannot stand in a path; leave out slashes, colons "
      "and blanks."
    )
