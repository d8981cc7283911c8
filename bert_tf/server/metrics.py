"""Metrics of the server in Prometheus' format."""

import functools
from collections.abc import Callable
from typing import Any

from bert_tf.files import errors
from bert_tf.server import batching

with errors.needs_extra("serving", extra="serve"):
  import prometheus_client

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)


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
      "text_bytes", "Bytes of texts; a word piece has at least one.", by
    )
    self._pieces = counter(
      "word_pieces", "Word pieces of texts before truncation.", by
    )
    self._windows = counter(
      "windows", "Windows of texts, as counted for max_windows.", by
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
    self, method: str, path: str, status: int, seconds: float
  ) -> None:
    """Counts an answered request; `path` is the pattern of its path."""
    self._requests.labels(method, path, str(status)).inc()
    self._request_seconds.labels(path).observe(seconds)

  def inputs(
    self,
    model: str,
    signature: str,
    num_rows: int,
    num_bytes: int,
    num_windows: int,
  ) -> None:
    """Counts the rows, the bytes of text and the windows of a request."""
    self._rows.labels(model, signature).inc(num_rows)
    self._text_bytes.labels(model, signature).inc(num_bytes)
    self._windows.labels(model, signature).inc(num_windows)

  def word_pieces(self, model: str, signature: str, num_pieces: int) -> None:
    """Counts the word pieces of a computed request."""
    self._pieces.labels(model, signature).inc(num_pieces)

  def batch(self, batch: batching.Batch) -> None:
    """Records the rows and times of a computed batch."""
    self._batch_rows.observe(batch.num_rows)
    self._batch_seconds.observe(batch.seconds)
    for waited in batch.waited_s:
      self._wait_seconds.observe(waited)

  def text(self) -> bytes:
    """Returns all metrics as text in the format that CONTENT_TYPE names."""
    return prometheus_client.generate_latest(self._registry)
