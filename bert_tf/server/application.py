"""An HTTP server with TensorFlow Serving's REST paths and a page.

aiohttp handles HTTP, the limits of requests and the graceful shutdown.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.files import errors
from bert_tf.inference import loaded_model, outputs, predictor
from bert_tf.server import (
  access_log,
  attention_json,
  batching,
  connections,
  limits,
  metrics,
  openapi,
  page,
  rest_json,
  samples,
  served,
)
from bert_tf.server import config as server_config

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

_MODEL_PATH = "/v1/models/{name:[^/:]+}"
_VERSION_PATH = "/v1/models/{name:[^/:]+}/versions/{version:[0-9]+}"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


# An answer of more values is written as JSON beside the event loop.
_LARGE_ANSWER = 10_000


class Server:
  """Serves models, by their names, from start to stop in one event loop."""

  def __init__(
    self,
    models: Mapping[str, predictor.Predictor],
    config: server_config.ServerConfig,
  ) -> None:
    self._models = served.of_predictors(models)
    self._config = config
    self._page = page.load()
    names = ("localhost", "127.0.0.1", "::1", config.host)
    self._hosts = {host.lower() for host in (*names, *config.allowed_hosts)}
    self._is_ready = False
    self._openapi = openapi.document(list(self._models.values()), self._config)
    # Word pieces are counted beside the computation, not before it.
    self._counting = concurrent.futures.ThreadPoolExecutor(1, "counting")
    self._writing = concurrent.futures.ThreadPoolExecutor(1, "writing")

  async def start(self) -> str:
    """Starts to listen; returns the address, http://HOST:PORT.

    Raises:
      OSError: if it cannot listen there.
    """
    self._metrics = metrics.Metrics(
      lambda: self._batcher.num_waiting, lambda: self._is_ready
    )
    self._log = access_log.AccessLog(self._metrics, self._config.log_format)
    self._batcher = batching.Batcher(
      self._compute, self._config, self._metrics.batch
    )
    application = web.Application(
      middlewares=[self._log.noted, self._guarded],
      client_max_size=self._config.max_request_bytes,
    )
    application.add_routes(self._routes())
    self._runner = web.AppRunner(
      application,
      shutdown_timeout=self._config.stop_timeout_s,
      # What a client that has gone asked for is not computed.
      handler_cancellation=True,
    )
    await self._runner.setup()
    try:
      self._listener = await self._listen()
    except OSError:
      await self._batcher.close()
      await self._runner.cleanup()
      raise
    self._warming = asyncio.create_task(self._warm_up())
    host, port = self._listener.sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

  async def _listen(self) -> asyncio.Server:
    """Listens; each connection has its limits."""
    loop, server = asyncio.get_running_loop(), self._runner.server
    assert server is not None
    limit = connections.max_connections(self._config.max_connections)

    def connect() -> connections.Connection:
      timeout = self._config.idle_timeout_s
      return connections.Connection(
        server, self._log, limit, loop=loop, keepalive_timeout=timeout
      )

    return await loop.create_server(
      connect, self._config.host, self._config.port, backlog=128
    )

  async def _warm_up(self) -> None:
    """Calls each function once, since a first call takes longer."""

    def call(function: loaded_model.Function) -> None:
      try:
        function(samples.inputs_of(function))
      except tf.errors.OpError as error:  # It may refuse what is made up.
        logging.info("Warming up: %s", errors.reason(error))

    for model in self._models.values():
      for function in model.functions.values():
        await self._batcher.run(functools.partial(call, function))
    self._is_ready = True

  async def stop(self) -> None:
    """Refuses new connections, finishes running requests and stops."""
    self._warming.cancel()
    self._is_ready = False
    self._listener.close()
    await self._runner.cleanup()
    await self._batcher.close()
    self._counting.shutdown()
    self._writing.shutdown()
    logging.info(
      "Answered %d requests in %d batches.",
      self._batcher.num_requests,
      self._batcher.num_batches,
    )

  def _routes(self) -> list[web.RouteDef]:
    routes = [
      web.get("/", self._get_page),
      web.get("/healthz", self._get_health),
      web.get("/readyz", self._get_ready),
      web.get("/metrics", self._get_metrics),
      web.get("/openapi.json", self._get_openapi),
      web.get("/v1/models", self._get_models),
    ]
    for path in (_MODEL_PATH, _VERSION_PATH):
      routes += [
        web.get(path, self._get_status),
        web.get(f"{path}/metadata", self._get_metadata),
        web.post(f"{path}:predict", self._predict),
        web.post(f"{path}:attention", self._attention),
      ]
    return routes

  @web.middleware
  async def _guarded(
    self, request: web.Request, handler: _Handler
  ) -> web.StreamResponse:
    """Turns errors into JSON responses."""
    try:
      self._check_host(request)
      return await handler(request)
    except limits.HttpError as error:
      return _error(error.status, str(error))
    except web.HTTPRequestEntityTooLarge:
      return _error(
        413,
        f"the request is larger than {self._config.max_request_bytes} bytes.",
      )
    except web.HTTPException as error:  # Unknown path or wrong method.
      status = error.status
      message = f"Malformed request: {request.method} {request.path:.200}"
      return _error(status, message, allow=error.headers.get("Allow"))
    except web.RequestPayloadError as error:
      return _error(400, f"Malformed request: the body is not whole: {error}")
    except RecursionError:
      return _error(400, "JSON Parse error: lists in too many lists.")
    except ValueError as error:
      return _error(400, str(error))
    except batching.QueueFullError as error:
      return _error(503, str(error))
    except tf.errors.InvalidArgumentError as error:
      return _error(400, errors.reason(error))
    except tf.errors.OpError as error:
      logging.exception("A request failed:")
      return _error(500, errors.reason(error))

  def _compute(
    self, name: tuple[str, str], inputs: Mapping[str, np.ndarray]
  ) -> batching.Arrays:
    """Computes a function, named by its model and its signature."""
    model, signature = self._models[name[0]], name[1]
    at_once = limits.rows_at_once(model, signature, inputs, self._config)
    return limits.compute(
      model.functions[signature], inputs, at_once, self._config
    )

  async def _get_page(self, request: web.Request) -> web.Response:
    return web.Response(
      text=self._page.html,
      content_type="text/html",
      charset="utf-8",
      headers=self._page.headers,
    )

  async def _get_health(self, request: web.Request) -> web.Response:
    first = next(iter(self._models.values()))
    return connections.json_response(
      {"status": "ok", "model": first.name, "version": str(first.version)}
    )

  async def _get_ready(self, request: web.Request) -> web.Response:
    if not self._is_ready:
      raise limits.HttpError(
        503, "a model is not warm yet, or the server stops."
      )
    return await self._get_health(request)

  async def _get_metrics(self, request: web.Request) -> web.Response:
    return web.Response(
      body=self._metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE}
    )

  async def _get_openapi(self, request: web.Request) -> web.Response:
    return connections.json_response(self._openapi)

  async def _get_models(self, request: web.Request) -> web.Response:
    about = [model.about() for model in self._models.values()]
    return connections.json_response({"models": about})

  async def _get_status(self, request: web.Request) -> web.Response:
    model = self._find(request)
    if model is None:
      name = request.match_info["name"]
      raise limits.HttpError(
        404, f"Could not find any versions of model {name:.100}"
      )
    state = {
      "version": str(model.version),
      "state": "AVAILABLE",
      "status": {"error_code": "OK", "error_message": ""},
    }
    return connections.json_response({"model_version_status": [state]})

  async def _get_metadata(self, request: web.Request) -> web.Response:
    model = self._model_of(request)
    return connections.json_response(
      rest_json.metadata(model.name, model.version, model.functions)
    )

  async def _predict(self, request: web.Request) -> web.Response:
    model = self._model_of(request)
    value = rest_json.parse(await self._body(request))
    asked = rest_json.predict_request(value, model.functions, self._config)
    lengths, signature = asked.lengths, asked.signature_name
    num_windows = limits.num_windows(model, asked.inputs, lengths, self._config)
    request[access_log.NUM_ROWS] = asked.num_rows
    counting = asyncio.get_running_loop().run_in_executor(
      self._counting, model.num_pieces, asked.inputs
    )
    try:
      computed = await self._batcher.submit(
        (model.name, signature),
        asked.inputs,
        int(lengths.max()),
        self._can_be_joined(model, asked),
      )
    finally:
      self._metrics.inputs(
        *(model.name, signature, asked.num_rows, int(lengths.sum())),
        *(num_windows, await counting),
      )
    # The width of an answer must not depend on the rest of its batch.
    trimmed = outputs.trimmed(computed)
    num_values = limits.num_values_of(trimmed)
    limits.check_answer(num_values, self._config)

    def respond() -> web.Response:
      answer = rest_json.predict_response(asked, trimmed)
      return connections.json_response(answer)

    if num_values <= _LARGE_ANSWER:
      return respond()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(self._writing, respond)

  def _can_be_joined(
    self, model: served.ServedModel, asked: rest_json.PredictRequest
  ) -> bool:
    """Returns whether a request may share a batch: if a call takes it whole."""
    name, config = asked.signature_name, self._config
    at_once = limits.rows_at_once(model, name, asked.inputs, config)
    return (
      model.functions[name].has_batches() and at_once == config.max_batch_size
    )

  async def _attention(self, request: web.Request) -> web.Response:
    model = self._model_of(request)
    value = rest_json.parse(await self._body(request))
    asked = attention_json.parse(value, model.functions, self._config)
    computed = await self._batcher.submit(
      (model.name, asked.signature_name), asked.inputs, can_be_joined=False
    )
    return connections.json_response(attention_json.response(asked, computed))

  def _find(self, request: web.Request) -> served.ServedModel | None:
    """Returns the model that a path names, None without one."""
    model = self._models.get(request.match_info["name"])
    version = request.match_info.get("version")
    if model and version in (None, str(model.version)):
      return model
    return None

  def _model_of(self, request: web.Request) -> served.ServedModel:
    """Returns the model that a path names; raises if there is none."""
    model = self._find(request)
    if model is None:
      name = request.match_info["name"][:100]
      version = request.match_info.get("version")
      which = f"Latest({name})"
      if version:
        which = f"Specific({name}, {version:.20})"
      raise limits.HttpError(404, f"Servable not found for request: {which}")
    return model

  def _check_host(self, request: web.Request) -> None:
    """Refuses names that are not this server's: of a page that was rebound."""
    name = request.headers.get("Host", "localhost").lower()
    name = name[1:].partition("]")[0] if name[:1] == "[" else name.split(":")[0]
    address = request.get_extra_info("sockname", ("",))[0]
    if name not in self._hosts and name != address:
      raise limits.HttpError(
        403,
        f"the Host {name!r:.100} is not this server's; its setting "
        "allowed_hosts names others.",
      )

  async def _body(self, request: web.Request) -> bytes:
    """Returns the body of a request; raises if it is too large or too slow."""
    # A page of another site can send any other type unasked.
    if request.content_type != "application/json":
      raise limits.HttpError(
        415,
        f"the Content-Type is {request.content_type:.100}; send "
        "application/json.",
      )
    length = request.content_length or 0
    if length > self._config.max_request_bytes:
      raise web.HTTPRequestEntityTooLarge(
        self._config.max_request_bytes, length
      )
    try:
      return await asyncio.wait_for(request.read(), self._config.read_timeout_s)
    except asyncio.TimeoutError:
      raise limits.HttpError(
        408,
        f"the request took more than {self._config.read_timeout_s:g} s to "
        "arrive.",
      ) from None


@contextlib.asynccontextmanager
async def running(
  models: Mapping[str, predictor.Predictor],
  config: server_config.ServerConfig,
) -> AsyncIterator[str]:
  """Runs a server inside the scope; yields its address."""
  server = Server(models, config)
  url = await server.start()
  try:
    yield url
  finally:
    await server.stop()


def run(
  models: Mapping[str, predictor.Predictor],
  config: server_config.ServerConfig,
  started: Callable[[str], None],
) -> None:
  """Serves until SIGTERM or Ctrl-C; a second signal ends at once.

  `started` is called with the address once requests are answered.

  Raises:
    OSError: if it cannot listen there.
  """
  asyncio.run(_run(models, config, started))


async def _run(
  models: Mapping[str, predictor.Predictor],
  config: server_config.ServerConfig,
  started: Callable[[str], None],
) -> None:
  loop = asyncio.get_running_loop()
  stopped = asyncio.Event()

  def stop(number: int) -> None:
    logging.info("%s: finishing, then stopping.", signal.Signals(number).name)
    for each in (signal.SIGTERM, signal.SIGINT):
      loop.remove_signal_handler(each)
    stopped.set()

  async with running(models, config) as url:
    for number in (signal.SIGTERM, signal.SIGINT):
      loop.add_signal_handler(number, stop, number)
    started(url)
    await stopped.wait()


def _error(status: int, message: str, allow: str | None = None) -> web.Response:
  response = connections.error_response(status, message)
  if allow:
    response.headers["Allow"] = allow
  if status == 503:
    response.headers["Retry-After"] = "1"
  return response
