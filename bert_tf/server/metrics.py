"""Metrics of the server in Prometheus' format, and its access log."""

import datetime
import functools
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_tf.files import errors

with errors.needs_extra("serving", extra="serve"):
  import prometheus_client

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Metrics:
  """The metrics of one server.

  Args:
    num_waiting: returns the number of waiting requests.
    expected_wait_s: returns the seconds that a new request would wait.
    is_ready: returns whether the models are warm and the batcher runs.
  """

  def __init__(
    self,
    num_waiting: Callable[[], int],
    expected_wait_s: Callable[[], float],
    is_ready: Callable[[], bool],
  ) -> None:
    self._registry = registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    prometheus_client.PlatformCollector(registry=registry)
    common: dict[str, Any] = {"namespace": "bert_tf", "registry": registry}
    # Any, because mypy does not understand positional arguments here.
    counter: Any = functools.partial(prometheus_client.Counter, **common)
    self._requests = counter(
      "requests", "Answered requests.", ("method", "path", "status")
    )
    by = ("model", "signature")
    self._rows = counter("rows", "Rows of requests.", by)
    self._text_bytes = counter(
      "text_bytes", "Bytes of the requests' bodies.", by
    )
    self._pieces = counter(
      "word_pieces", "Word pieces of all inputs, with [CLS] and [SEP].", by
    )
    self._windows = counter(
      "windows", "Inputs of the model: texts, windows or choices.", by
    )
    histogram: Any = functools.partial(prometheus_client.Histogram, **common)
    seconds = functools.partial(histogram, buckets=_SECONDS)
    self._request_seconds = seconds(
      "request_seconds", "Seconds to an answer.", ("path",)
    )
    self._batch_seconds = seconds(
      "batch_seconds", "Seconds to compute a batch."
    )
    self._wait_seconds = seconds("wait_seconds", "Seconds before the batch.")
    self._batch_rows = histogram(
      "batch_rows", "Rows of a batch.", buckets=_ROWS
    )
    gauge: Any = functools.partial(prometheus_client.Gauge, **common)
    gauge("waiting_requests", "Waiting requests.").set_function(num_waiting)
    gauge(
      "expected_wait_seconds", "Seconds that a new request would wait."
    ).set_function(expected_wait_s)
    gauge("ready", "1 when the models are warm.").set_function(is_ready)

  def request(
    self, scope: Mapping[str, Any], status: int, seconds: float
  ) -> None:
    """Counts an answered request by the pattern of its path."""
    method, route = scope["method"], scope.get("route")
    # Not the path, so that clients cannot create new series.
    path = route.path if route else "other"
    self._requests.labels(
      method if method in _METHODS else "other", path, str(status)
    ).inc()
    self._request_seconds.labels(path).observe(seconds)

  def inputs(
    self,
    model: str,
    signature: str,
    num_rows: int,
    num_bytes: int,
    sizes: Sequence[int],
  ) -> None:
    """Counts an accepted request; `sizes` are the word pieces of its inputs."""
    self._rows.labels(model, signature).inc(num_rows)
    self._text_bytes.labels(model, signature).inc(num_bytes)
    self._pieces.labels(model, signature).inc(sum(sizes))
    self._windows.labels(model, signature).inc(len(sizes))

  def batch(
    self, num_rows: int, seconds: float, waited_s: Sequence[float]
  ) -> None:
    """Records the rows and times of a computed batch."""
    self._batch_rows.observe(num_rows)
    self._batch_seconds.observe(seconds)
    for waited in waited_s:
      self._wait_seconds.observe(waited)

  def text(self) -> bytes:
    """Returns all metrics as text in the format that CONTENT_TYPE names."""
    return prometheus_client.generate_latest(self._registry)


class AccessLog:
  """Prints a line on stdout for each request, without its texts."""

  def __init__(self, log_format: str) -> None:
    self._format = log_format
    # A handler goes on if the reader closes stdout.
    self._logger = logging.Logger("bert_tf.server.access")
    self._logger.addHandler(logging.StreamHandler(sys.stdout))

  def log(
    self,
    scope: Mapping[str, Any],
    status: int,
    num_bytes: int,
    seconds: float,
  ) -> None:
    """Prints the line of a request; `rows` in its scope is the row count."""
    if self._format == "none":
      return
    line: dict[str, Any] = {
      "time": _now(),
      "remote": scope["client"][0],
      "method": scope["method"],
      # Percent-encoded, so that it has no line breaks.
      "path": scope["raw_path"].decode()[:200],
      "status": status,
      "milliseconds": round(seconds * 1e3, 2),
      "bytes": num_bytes,
    }
    if "rows" in scope:
      line["rows"] = scope["rows"]
    if self._format == "json":
      self._logger.info("%s", json.dumps(line))
    else:
      self._logger.info("%s", " ".join(f"{k}={v}" for k, v in line.items()))


def started_line(url: str, folders: Mapping[str, str]) -> str:
  """Returns the first line of a JSON log: address, and folders by model."""
  return json.dumps(
    {"time": _now(), "event": "started", "url": url, "models": dict(folders)}
  )


def _now() -> str:
  now = datetime.datetime.now(datetime.timezone.utc)
  return now.isoformat(timespec="milliseconds")
