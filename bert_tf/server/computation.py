"""Parses requests, computes them in batches and encodes the answers."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from absl import logging

from bert_tf.files import errors
from bert_tf.inference import outputs
from bert_tf.server import (
  access_log,
  batching,
  limits,
  metrics,
  rest_json,
  served,
  workers,
)
from bert_tf.server import config as server_config

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

_Request = TypeVar("_Request")

# Larger bodies are parsed in a thread, to not delay other requests.
_LARGE_BYTES = 1 << 15
# Answers with more values are encoded as JSON in a thread.
_LARGE_ANSWER = 10_000
# Maximum seconds that an answer waits for its word pieces to be counted.
_MAX_COUNTING_S = 1.0


class FunctionName(NamedTuple):
  """Identifies a function of a model in the batcher."""

  model: str
  signature: str
  # Whether to compute all rows of a batch in one call. The caller of the
  # batcher then limits their number.
  at_once: bool = False


class Computation:
  """Computes the requests of one server, in its own threads.

  Attributes:
    metrics: the metrics of the server.
    batcher: forms batches and computes them.
    counting: counts word pieces, in parallel to the computation.
    json: parses and encodes large JSON.
  """

  def __init__(
    self,
    models: Mapping[str, served.ServedModel],
    config: server_config.ServerConfig,
    server_metrics: metrics.Metrics,
  ) -> None:
    self._models = models
    self._config = config
    self.metrics = server_metrics
    self.batcher = batching.Batcher(self._compute, config, server_metrics.batch)
    self.counting = workers.Worker("counting", config.max_stall_s)
    self.json = workers.Worker("JSON", config.max_stall_s)

  @property
  def workers(self) -> tuple[workers.Worker, ...]:
    """All threads of the computation."""
    return *self.batcher.workers, self.counting, self.json

  async def close(self) -> None:
    """Stops computing; waiting requests fail with EndedError."""
    await self.batcher.close()
    self.counting.close()
    self.json.close()

  async def parse(
    self,
    request: web.Request,
    parse: Callable[[Mapping[str, Any]], _Request],
  ) -> _Request:
    """Parses the JSON object of a request with `parse`.

    Raises:
      limits.HttpError: if the body cannot be read, or `parse` raises
        ValueError.
    """
    body = await self._read(request)

    def call() -> _Request:
      try:
        return parse(rest_json.parse(body))
      except RecursionError as error:
        raise limits.HttpError(
          400, "JSON Parse error: lists are nested too deeply."
        ) from error
      except ValueError as error:
        raise limits.HttpError(400, str(error)) from error

    if len(body) <= _LARGE_BYTES:
      return call()
    return await self.json.run(call)

  async def _read(self, request: web.Request) -> bytes:
    # Browsers require a CORS preflight for JSON. Without this check, pages of
    # other sites could send JSON as plain text.
    if request.content_type != "application/json":
      raise limits.HttpError(
        415,
        f"the Content-Type is {request.content_type:.100}; send "
        "application/json.",
      )
    codings = request.headers.getall("Content-Encoding", [])
    if any(coding.strip().lower() != "identity" for coding in codings):
      raise limits.HttpError(
        415,
        f"the Content-Encoding is {', '.join(codings):.100}; send the body "
        "uncompressed and without this header.",
      )
    max_bytes, timeout = (
      self._config.max_request_bytes,
      self._config.read_timeout_s,
    )
    try:
      if (request.content_length or 0) > max_bytes:
        raise web.HTTPRequestEntityTooLarge(max_bytes)
      return await asyncio.wait_for(request.read(), timeout)
    except web.HTTPRequestEntityTooLarge:
      raise limits.HttpError(
        413, f"the request is larger than {max_bytes} bytes."
      ) from None
    except asyncio.TimeoutError:
      raise limits.HttpError(
        408, f"the request took more than {timeout:g} s to arrive."
      ) from None

  async def answer(
    self,
    request: web.Request,
    model: served.ServedModel,
    parsed: rest_json.PredictRequest,
    respond: Callable[[batching.Arrays], web.Response],
  ) -> web.Response:
    """Computes a request and returns its answer.

    `respond` makes the answer from the outputs, arrays by name.

    Raises:
      limits.HttpError: if the request or the answer is too large.
      Exception: as Batcher.submit.
    """
    lengths = parsed.lengths
    num_windows = limits.num_windows(
      model, parsed.inputs, lengths, self._config
    )
    request[access_log.NUM_ROWS] = parsed.num_rows
    labels = model.name, parsed.signature_name
    sizes = parsed.num_rows, int(lengths.sum()), num_windows
    counting = asyncio.create_task(
      self._count(labels, model.piece_counts(parsed.inputs), *sizes)
    )
    try:
      computed = await self.batcher.submit(
        FunctionName(*labels),
        parsed.inputs,
        int(lengths.max()),
        # Not if a full batch may have too large outputs, or the function takes
        # a fixed number of rows.
        model.functions[parsed.signature_name].has_batches()
        and limits.rows_at_once(
          model, parsed.signature_name, parsed.inputs, self._config
        )
        == self._config.max_batch_size,
        num_windows,
      )
      await asyncio.wait([counting], timeout=_MAX_COUNTING_S)
    finally:  # The client may have disconnected.
      counting.cancel()

    def encode() -> web.Response:
      # The width of an answer must not depend on other requests of its batch.
      trimmed = outputs.trim(computed)
      limits.check_answer(limits.count_values(trimmed), self._config)
      return respond(trimmed)

    return await self.encode(encode, limits.count_values(computed))

  async def encode(
    self, encode: Callable[[], web.Response], num_values: int
  ) -> web.Response:
    """Calls `encode`, in a thread if the answer has many values."""
    if num_values <= _LARGE_ANSWER:
      return encode()
    return await self.json.run(encode)

  def _compute(
    self,
    name: FunctionName,
    inputs: batching.Arrays,
    proceed: Callable[[], None],
  ) -> batching.Arrays:
    """Computes a batch, in slices that limit the memory of the outputs."""
    model = self._models[name.model]
    at_once = len(next(iter(inputs.values())))
    if not name.at_once:
      at_once = limits.rows_at_once(model, name.signature, inputs, self._config)
    return limits.compute(
      model.functions[name.signature], inputs, at_once, self._config, proceed
    )

  async def _count(
    self, labels: tuple[str, str], lengths: Iterator[list[int]], *sizes: int
  ) -> None:
    """Counts a request in the metrics; logs errors instead of raising them.

    The thread counts a few kilobytes at a time, so that requests take turns and
    counting can be cancelled.
    """
    try:
      self.metrics.inputs(*labels, *sizes)
      while some := await self.counting.run(next, lengths, None):
        self.metrics.word_pieces(*labels, sum(some))
    except Exception:  # noqa: BLE001  The request can still be answered.
      logging.exception("A request was not counted:")
