"""Metrics of the server in Prometheus' format, and the lines of its log."""

import datetime
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_tf.files import packages

with packages.needs_extra("serving", extra="serve"):
  import prometheus_client

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
  """The metrics of one server.

  `queue` returns the waiting requests, which know when they `arrived`.
  """

  def __init__(self, queue: Callable[[], Sequence[Any]]) -> None:
    self._registry = registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    common: Any = {"namespace": "bert_tf", "registry": registry}
    # Any, because mypy does not understand positional arguments here.
    counter: Any = functools.partial(prometheus_client.Counter, **common)
    histogram: Any = functools.partial(prometheus_client.Histogram, **common)
    self._requests = counter(
      "requests", "Answered requests.", ("method", "path", "status")
    )
    by = ("model", "signature")
    self._rows = counter("rows", "Rows of requests.", by)
    self._windows = counter(
      "windows", "Inputs of the model: texts, windows or choices.", by
    )
    self._request_seconds = histogram(
      "request_seconds", "Seconds to an answer.", ("path",), buckets=_SECONDS
    )
    self._batch_seconds = histogram(
      "batch_seconds", "Seconds to compute a batch.", buckets=_SECONDS
    )
    self._batch_rows = histogram(
      "batch_rows", "Rows of a batch.", buckets=_ROWS
    )
    gauge: Any = functools.partial(prometheus_client.Gauge, **common)
    waiting = gauge("waiting_requests", "Waiting requests.")
    waiting.set_function(lambda: len(queue()))
    oldest = gauge(
      "oldest_wait_seconds", "Seconds that a new request would wait."
    )
    oldest.set_function(
      lambda: max((time.monotonic() - r.arrived for r in queue()), default=0)
    )

  def request(
    self, scope: Mapping[str, Any], status: int, seconds: float
  ) -> None:
    """Counts an answered request by the pattern of its path."""
    # Not the path, so that clients cannot create new series.
    path = scope["route"].path_format if "route" in scope else "other"
    self._requests.labels(scope["method"], path, str(status)).inc()
    self._request_seconds.labels(path).observe(seconds)

  def inputs(
    self, model: str, signature: str, num_rows: int, num_windows: int
  ) -> None:
    """Counts the rows and inputs of an accepted request."""
    self._rows.labels(model, signature).inc(num_rows)
    self._windows.labels(model, signature).inc(num_windows)

  def batch(self, num_rows: int, seconds: float) -> None:
    """Records the rows and the time of a computed batch."""
    self._batch_rows.observe(num_rows)
    self._batch_seconds.observe(seconds)

  def text(self) -> bytes:
    """Returns all metrics as text in the format that CONTENT_TYPE names."""
    return prometheus_client.generate_latest(self._registry)


def log_line(log_format: str, values: Mapping[str, Any]) -> str:
  """Returns a line of the log, as JSON or text, which begins with the time."""
  now = datetime.datetime.now(datetime.timezone.utc)
  line = {"time": now.isoformat(timespec="milliseconds"), **values}
  if log_format == "json":
    return json.dumps(line)
  return " ".join(f"{name}={value}" for name, value in line.items())
