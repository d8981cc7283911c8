"""An HTTP server with TensorFlow Serving's REST paths and a web page.

aiohttp handles HTTP, the size of requests and the graceful shutdown.
"""

import asyncio
import contextlib
import functools
import re
import signal
import socket
from collections.abc import (
  AsyncIterator,
  Awaitable,
  Callable,
  Mapping,
  Sequence,
)

import tensorflow as tf
from absl import logging

from bert_tf.files import errors
from bert_tf.inference import loaded_model, predictor
from bert_tf.server import (
  access_log,
  attention_json,
  batching,
  computation,
  connections,
  embeddings,
  limits,
  metrics,
  page,
  rest_json,
  served,
  workers,
)
from bert_tf.server import config as server_config

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

_MODEL_PATH = "/v1/models/{name:[^/:]+}"
_VERSION_PATH = "/v1/models/{name:[^/:]+}/versions/{version:[0-9]+}"
# A name, or an IPv6 address in brackets, and optionally a port.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/?#@\s]+))(?::[0-9]*)?", re.I)


class ServingEndedError(Exception):
  """A fault, which is in the log, has ended the computation of batches."""


class Server:
  """Serves models, by name, within one event loop."""

  def __init__(
    self,
    models: Mapping[str, predictor.Predictor],
    config: server_config.ServerConfig,
  ) -> None:
    self._models = served.create_models(models)
    self._config = config
    self._page = page.load()
    hosts = ("localhost", "127.0.0.1", "::1", config.host)
    self._hosts = {host.lower() for host in (*hosts, *config.allowed_hosts)}
    self._is_ready = self._is_stopping = False

  async def start(self, sockets: Sequence[socket.socket]) -> str:
    """Starts to answer at open sockets; returns the address."""
    self._metrics = metrics.Metrics(
      lambda: self._batcher.num_waiting,
      lambda: self._batcher.expected_wait_s(),
      self._can_answer,
    )
    self._log = access_log.AccessLog(self._metrics, self._config.log_format)
    self._computation = computation.Computation(
      self._models, self._config, self._metrics
    )
    self._batcher = self._computation.batcher
    self._embeddings = embeddings.Embeddings(
      self._models, self._config, self._computation
    )
    application = web.Application(
      middlewares=[self._log.store_route, self._check_and_answer],
      client_max_size=self._config.max_request_bytes,
    )
    application.add_routes(self._routes())
    self._runner = web.AppRunner(
      application,
      shutdown_timeout=self._config.stop_timeout_s,
      # Requests of disconnected clients are not computed.
      handler_cancellation=True,
    )
    await self._runner.setup()
    loop, server = asyncio.get_running_loop(), self._runner.server
    assert server is not None
    limit = self._config.max_connections
    refused: set[asyncio.Protocol] = set()

    def connect() -> connections.Connection:
      return connections.Connection(
        *(server, self._log, limit, refused),
        loop=loop,
        keepalive_timeout=self._config.idle_timeout_s,
      )

    self._listeners = [
      await loop.create_server(connect, sock=each, backlog=128)
      for each in sockets
    ]
    self._warming = asyncio.create_task(self._warm_up())
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

  @web.middleware
  async def _check_and_answer(
    self,
    request: web.Request,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
  ) -> web.StreamResponse:
    try:
      self._check_host(request)
      response = await handler(request)
    except (ConnectionError, web.HTTPException):
      raise  # The client is gone, or connections.py answers.
    except Exception as error:  # noqa: BLE001  All requests get an answer.
      response = _error_response(request, error)
    if self._is_stopping:
      response.force_close()
    return response

  def _check_host(self, request: web.Request) -> None:
    """Raises HttpError 403 unless the host is accepted, against DNS rebinding.

    `request.host` may be that of the request target.
    """
    address = request.get_extra_info("sockname", ("",))[0]
    for name in (*request.headers.getall("Host", []), request.host):
      match = _HOST.fullmatch(name)
      host = match[1] or match[2] if match else name
      if host.lower() not in self._hosts and host != address:
        raise limits.HttpError(
          403,
          f"the Host {name!r:.100} is not accepted; the server's setting "
          "allowed_hosts adds host names.",
        )

  async def _warm_up(self) -> None:
    def call(function: loaded_model.Function) -> None:
      try:
        function(function.sample())
      except tf.errors.OpError as error:  # May reject made-up inputs.
        logging.info("Warming up: %s", errors.reason(error))

    for model in self._models.values():
      for name, function in model.functions.items():
        try:
          await self._batcher.workers[0].run(call, function)
        except Exception:  # noqa: BLE001  Other functions may work.
          logging.exception("Warming up %s of %s failed:", name, model.name)
    self._is_ready = True

  async def wait_until_ended(self) -> None:
    """Waits until a fault ends the computation of batches."""
    await self._batcher.ended.wait()

  def _can_answer(self) -> bool:
    is_stalled = any(
      worker.is_stalled() for worker in self._computation.workers
    )
    has_ended = self._batcher.ended.is_set()
    return self._is_ready and not is_stalled and not has_ended

  async def stop(self) -> None:
    """Refuses new connections, finishes running requests and stops."""
    self._warming.cancel()
    self._is_ready, self._is_stopping = False, True
    for listener in self._listeners:
      listener.close()
    await self._runner.cleanup()
    await self._computation.close()
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
      web.get("/v1/models", self._get_models),
      web.post(connections.EMBEDDINGS_PATH, self._embeddings.answer),
    ]
    for path in (_MODEL_PATH, _VERSION_PATH):
      routes += [
        web.get(path, self._get_status),
        web.get(f"{path}/metadata", self._get_metadata),
        web.post(f"{path}:predict", self._predict),
        web.post(f"{path}:attention", self._attention),
      ]
    return routes

  async def _get_page(self, request: web.Request) -> web.Response:
    return web.Response(
      text=self._page.html,
      content_type="text/html",
      charset="utf-8",
      headers=self._page.headers,
    )

  async def _get_health(self, request: web.Request) -> web.Response:
    if self._batcher.ended.is_set():
      raise limits.HttpError(
        500, "the server has stopped computing; its log has the reason."
      )
    for worker in self._computation.workers:
      worker.check()
    first = next(iter(self._models.values()))
    return connections.json_response(
      {"status": "ok", "model": first.name, "version": str(first.version)}
    )

  async def _get_ready(self, request: web.Request) -> web.Response:
    if not self._can_answer():
      raise limits.HttpError(
        503,
        "a model is not warm yet, a stage has stalled, or the server stops.",
      )
    return await self._get_health(request)

  async def _get_metrics(self, request: web.Request) -> web.Response:
    return web.Response(
      body=self._metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE}
    )

  async def _get_models(self, request: web.Request) -> web.Response:
    about = [model.about() for model in self._models.values()]
    # The form of OpenAI's API, for its clients.
    listed = [
      {"id": name, "object": "model", "created": 0, "owned_by": "bert_tf"}
      for name in self._models
    ]
    return connections.json_response(
      {"models": about, "object": "list", "data": listed}
    )

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
    model = self._find_model(request)
    return connections.json_response(
      rest_json.metadata(model.name, model.version, model.functions)
    )

  async def _predict(self, request: web.Request) -> web.Response:
    model = self._find_model(request)
    parsed = await self._computation.parse(
      request,
      lambda value: rest_json.predict_request(
        value, model.functions, self._config
      ),
    )

    def respond(outputs: batching.Arrays) -> web.Response:
      answer = rest_json.predict_response(parsed, outputs)
      return connections.json_response(answer)

    return await self._computation.answer(request, model, parsed, respond)

  async def _attention(self, request: web.Request) -> web.Response:
    model = self._find_model(request)
    parsed = await self._computation.parse(
      request,
      lambda value: attention_json.parse(value, model.functions, self._config),
    )
    computed = await self._batcher.submit(
      computation.FunctionName(model.name, parsed.signature_name),
      parsed.inputs,
      can_be_joined=False,
    )

    def respond() -> web.Response:
      answer = attention_json.response(parsed, computed)
      return connections.json_response(answer)

    return await self._computation.encode(
      respond, limits.count_values(computed)
    )

  def _find(self, request: web.Request) -> served.ServedModel | None:
    model = self._models.get(request.match_info["name"])
    version = request.match_info.get("version")
    is_known = model and version in (None, str(model.version))
    return model if is_known else None

  def _find_model(self, request: web.Request) -> served.ServedModel:
    model = self._find(request)
    if model is None:
      name = request.match_info["name"][:100]
      version = request.match_info.get("version")
      which = f"Latest({name})"
      if version:
        which = f"Specific({name}, {version:.20})"
      raise limits.HttpError(404, f"Servable not found for request: {which}")
    return model


def _error_response(request: web.Request, error: Exception) -> web.Response:
  respond = functools.partial(connections.error_response, request)
  if isinstance(error, limits.HttpError):
    return respond(error.status, str(error), param=error.param, code=error.code)
  if isinstance(error, web.RequestPayloadError):
    message = f"Malformed request: the body is incomplete: {error}"
    return respond(400, message)
  if isinstance(error, batching.OverloadedError):
    return respond(503, str(error), error.retry_after_s)
  if isinstance(error, batching.EndedError | workers.StalledError):
    return respond(503, str(error))
  if isinstance(error, tf.errors.InvalidArgumentError):
    return respond(400, errors.reason(error))
  logging.error("A request failed:", exc_info=error)
  if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
    return respond(
      503, "the server has too little memory for the request; send fewer rows."
    )
  if isinstance(error, tf.errors.OpError):
    return respond(500, errors.reason(error))
  return respond(500, connections.SERVER_FAILED)


@contextlib.asynccontextmanager
async def running(
  models: Mapping[str, predictor.Predictor],
  config: server_config.ServerConfig,
  sockets: Sequence[socket.socket] = (),
) -> AsyncIterator[tuple[Server, str]]:
  """Yields a running server and its address; by default opens its sockets."""
  sockets = sockets or connections.listen(config.host, config.port)
  server = Server(models, config)
  url = await server.start(sockets)
  try:
    yield server, url
  finally:
    await server.stop()


def run(
  models: Mapping[str, predictor.Predictor],
  config: server_config.ServerConfig,
  started: Callable[[str], None],
  sockets: Sequence[socket.socket] = (),
) -> None:
  """Serves until SIGTERM or Ctrl-C; a second signal stops immediately.

  `started` is called with the address when the server answers.

  Raises:
    OSError: if the server cannot listen at the address.
    ServingEndedError: if a fault ended the computation.
  """

  async def serve() -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop(number: int) -> None:
      name = signal.Signals(number).name
      logging.info("%s: finishing running requests, then stopping.", name)
      for each in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(each)
      stopped.set()

    async with running(models, config, sockets) as (server, url):
      for number in (signal.SIGTERM, signal.SIGINT):
        # On Windows, Ctrl-C is a KeyboardInterrupt.
        with contextlib.suppress(NotImplementedError):
          loop.add_signal_handler(number, stop, number)
      started(url)
      ended = asyncio.create_task(server.wait_until_ended())
      stopping = asyncio.create_task(stopped.wait())
      await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
      raise ServingEndedError(
        "the server has stopped computing; the log above has the reason. Start "
        "the server again."
      )

  asyncio.run(serve())
