"""An HTTP server with TensorFlow Serving's REST paths and a web page.

FastAPI finds the route of a request and checks its JSON; uvicorn handles HTTP
and the graceful shutdown.
"""

import asyncio
import base64
import contextlib
import functools
import gc
import math
import mimetypes
import pathlib
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np
from absl import logging

import bert_tf
from bert_tf.files import packages
from bert_tf.inference.predictor import Predictor
from bert_tf.server import batching, limits, metrics, types
from bert_tf.server.config import ServerConfig
from bert_tf.server.limits import HttpError
from bert_tf.server.models import ServedModel, Signature

with packages.needs_extra("serving", extra="serve"):
  import fastapi
  import uvicorn
  from fastapi import exceptions, responses
  from starlette import convertors
  from starlette import exceptions as starlette_exceptions
  from starlette.middleware import cors
  from uvicorn.protocols.http import httptools_impl

_PAGE = pathlib.Path(__file__).parent / "page"
# The scripts never parse texts as HTML; the policy is a second defence.
_PAGE_HEADERS = {
  "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
  "style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
  "form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-cache",
}
# Larger bodies are tokenized in a thread, so that other requests need not wait.
_LARGE_BYTES = 1 << 13
# Answers with more values are encoded as JSON in a thread.
_LARGE_ANSWER = 10_000


class _NameConvertor(convertors.StringConvertor):
  """The name of a model in a path, which ends before a verb like :predict."""

  regex = "[^/:]+"


convertors.register_url_convertor("model", _NameConvertor())


class _Uvicorn(uvicorn.Server):
  """Ends with status 0 after a first signal, and at once at a second one."""

  def handle_exit(self, sig: int, frame: FrameType | None) -> None:
    name = signal.Signals(sig).name
    logging.info("%s: finishing running requests, then stopping.", name)
    for each in (signal.SIGTERM, signal.SIGINT):
      signal.signal(each, signal.SIG_DFL)
    self.should_exit = True


class _Protocol(httptools_impl.HttpToolsProtocol):
  """Closes a connection on which the head of a request does not arrive.

  uvicorn does so only between two requests.
  """

  def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
    super().connection_made(transport)
    self._timer = self.loop.call_later(self.timeout_keep_alive, transport.close)

  def on_message_begin(self) -> None:
    super().on_message_begin()
    self._timer.cancel()
    close = self.transport.close
    self._timer = self.loop.call_later(self.timeout_keep_alive, close)

  def on_headers_complete(self) -> None:
    super().on_headers_complete()
    self._timer.cancel()


class Server:
  """Serves models over HTTP.

  Attributes:
    application: the routes, with the limits of requests.
    uvicorn: answers at open sockets, in the event loop of its `run`.
  """

  def __init__(
    self, predictors: Mapping[str, Predictor], config: ServerConfig
  ) -> None:
    self._models = {
      name: ServedModel(name, predictor, config)
      for name, predictor in predictors.items()
    }
    self._config = config
    self._is_warm = False
    self._metrics = metrics.Metrics(lambda: self._batcher.queue)
    self.application = self._build_application()
    self.uvicorn = _Uvicorn(
      uvicorn.Config(
        self.application,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=math.ceil(config.idle_timeout_s),
        timeout_graceful_shutdown=math.ceil(config.stop_timeout_s),
      )
    )

  @contextlib.asynccontextmanager
  async def _lifespan(self, application: Any) -> AsyncIterator[None]:
    """Begins before the first request and ends after the last answer."""
    self._batcher = batching.Batcher(self._config, self._metrics.batch)
    self._texts = batching.Worker("text", self._config.max_stall_s)
    warming = asyncio.create_task(self._warm_up())
    yield
    warming.cancel()
    await self._batcher.close()
    self._texts.close()

  def _build_application(self) -> fastapi.FastAPI:
    async def respond(
      request: fastapi.Request, error: Exception
    ) -> responses.Response:
      return limits.error_response(request.scope, error)

    application = fastapi.FastAPI(
      title="bert_tf",
      version=bert_tf.__version__,
      redoc_url=None,
      responses={"4XX": {"description": "An object with the key `error`."}},
      exception_handlers={
        starlette_exceptions.HTTPException: respond,
        exceptions.RequestValidationError: respond,
      },
      lifespan=self._lifespan,
    )
    application.add_middleware(limits.Middleware, self._config, self._metrics)
    if self._config.cors_origin:
      application.add_middleware(
        cors.CORSMiddleware, self._config.cors_origin, ["GET", "POST"], ["*"]
      )
    for path in ("/", "/page/{name}"):
      application.get(path, include_in_schema=False)(self._get_page)
    application.get("/metrics", include_in_schema=False)(self._get_metrics)
    application.get("/healthz")(self.get_health)
    application.get("/readyz")(self.get_ready)
    application.get("/v1/models")(self.get_models)
    application.post(limits.EMBEDDINGS_PATH)(self.embed)
    application.post("/v1/rerank")(self.rerank)
    model = "/v1/models/{name:model}"
    for path in (model, f"{model}/versions/{{version:model}}"):
      get, post = (
        functools.partial(add, include_in_schema="version" not in path)
        for add in (application.get, application.post)
      )
      post(f"{path}:predict")(self.predict)
      post(f"{path}:classify")(self.classify)
      post(f"{path}:regress")(self.regress)
      post(f"{path}:attention")(self.attend)
      get(f"{path}/metadata")(self.get_metadata)
      get(path)(self.get_status)
    return application

  async def _warm_up(self) -> None:
    for model in self._models.values():
      try:
        await self._batcher.workers[0].run(model.warm_up)
      except Exception:  # noqa: BLE001  Other functions may work.
        logging.exception("Warming up %s failed:", model.name)
    self._is_warm = True

  async def _get_page(self, name: str = "index.html") -> responses.Response:
    if name not in {file.name for file in _PAGE.iterdir()}:
      raise HttpError(404, f"the page has no file {name!r:.100}.")
    return responses.Response(
      (_PAGE / name).read_bytes(),
      headers=_PAGE_HEADERS,
      media_type=mimetypes.guess_type(name)[0],
    )

  async def _get_metrics(self) -> responses.Response:
    return responses.Response(
      self._metrics.text(), media_type=metrics.CONTENT_TYPE
    )

  async def get_health(self) -> responses.Response:
    """Answers 200 unless the computation has stalled."""
    for worker in (*self._batcher.workers, self._texts):
      worker.check()
    first = next(iter(self._models.values()))
    return limits.json_response(
      {"status": "ok", "model": first.name, "version": str(first.version)}
    )

  async def get_ready(self) -> responses.Response:
    """Answers 200 if the models are warm and the server does not stop."""
    if not self._is_warm or self.uvicorn.should_exit:
      raise HttpError(503, "a model is not warm, or the server stops.")
    return await self.get_health()

  async def get_models(self) -> responses.Response:
    """Describes all models, as `models`; `data` lists them as OpenAI does."""
    about = [model.about() for model in self._models.values()]
    listed = [
      {"id": name, "object": "model", "created": 0, "owned_by": "bert_tf"}
      for name in self._models
    ]
    return limits.json_response(
      {"models": about, "object": "list", "data": listed}
    )

  async def get_status(
    self, request: fastapi.Request, name: str
  ) -> responses.Response:
    """Returns the status of a model as TensorFlow Serving does."""
    model = self._find_model(request)
    state = {
      "version": str(model.version),
      "state": "AVAILABLE",
      "status": {"error_code": "OK", "error_message": ""},
    }
    return limits.json_response({"model_version_status": [state]})

  async def get_metadata(
    self, request: fastapi.Request, name: str
  ) -> responses.Response:
    """Returns the signatures of a model as TensorFlow Serving does."""
    return limits.json_response(self._find_model(request).metadata())

  async def predict(
    self, request: fastapi.Request, name: str, body: types.PredictRequest
  ) -> responses.Response:
    """Predicts for rows (`instances`) or columns (`inputs`).

    The answer has `predictions` for `instances`, and `outputs` for `inputs`.
    """
    model = self._find_model(request)
    rows = body.rows()
    signature = model.signature(body.signature_name, rows)
    answers = await self._compute(request, signature, rows)
    # As in TensorFlow Serving, the only output of a model has no name.
    is_unnamed = not signature.takes_texts and len(answers[0]) == 1
    if body.inputs is not None:
      columns = {key: [each[key] for each in answers] for key in answers[0]}
      outputs = next(iter(columns.values())) if is_unnamed else columns
      return await self._encode({"outputs": outputs})
    if is_unnamed:
      answers = [next(iter(each.values())) for each in answers]
    return await self._encode({"predictions": answers})

  async def classify(
    self, request: fastapi.Request, name: str, body: types.ExamplesRequest
  ) -> responses.Response:
    """Returns labels and probabilities, in TensorFlow Serving's form.

    `results` has a list of pairs [label, probability] for each example.
    """
    signature = self._find_model(request).signature(body.signature_name)
    answers = await self._compute(request, signature, body.rows())
    classes = [answer.get("probabilities") for answer in answers]
    if not classes[0] or not isinstance(classes[0], dict):
      raise HttpError(
        400, f"{name:.100} does not classify texts; use :predict."
      )
    return await self._encode({"results": [[*row.items()] for row in classes]})

  async def regress(
    self, request: fastapi.Request, name: str, body: types.ExamplesRequest
  ) -> responses.Response:
    """Returns the number of each example, in TensorFlow Serving's form."""
    signature = self._find_model(request).signature(body.signature_name)
    answers = await self._compute(request, signature, body.rows())
    numbers = [answer.get("label") for answer in answers]
    if not isinstance(numbers[0], float):
      raise HttpError(400, f"{name:.100} gives no numbers; use :predict.")
    return await self._encode({"results": numbers})

  async def attend(
    self, request: fastapi.Request, name: str, body: types.AttentionRequest
  ) -> responses.Response:
    """Returns the attention of a layer and head, which the page draws.

    `tokens` are the word pieces. Row f of the matrix `attention` has the
    weights from piece f to each piece.
    """
    model = self._find_model(request)
    answer = await self._texts.run(model.attention, body)
    return await self._encode(answer)

  async def embed(
    self, request: fastapi.Request, body: types.EmbeddingsRequest
  ) -> responses.Response:
    """Returns vectors of texts, in OpenAI's form.

    `data` has an object for each text, with `index` and `embedding`.
    """
    model = self._models.get(body.model)
    if model is None or model.predictor.info.task != "encoder":
      raise HttpError(
        404,
        f"there is no model {body.model!r:.100} that gives vectors; serve or "
        "export a checkpoint with `task=encoder`.",
        "model",
      )
    width = model.predictor.bert_config.hidden_size
    if body.dimensions not in (None, width):
      raise HttpError(
        400,
        f"dimensions is {body.dimensions}, but this model's vectors have "
        f"{width} values and cannot be shortened.",
        "dimensions",
      )
    answers = await self._compute(
      request, model.signature(None), body.input, types.MAX_TEXTS
    )
    data = []
    for index, answer in enumerate(answers):
      vector = answer["embedding"]
      if body.encoding_format == "base64":
        raw = np.array(vector, "<f4").tobytes()
        vector = base64.b64encode(raw).decode()
      data.append({"object": "embedding", "index": index, "embedding": vector})
    num_tokens = sum(answer["num_tokens"] for answer in answers)
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    return await self._encode(
      {"object": "list", "data": data, "model": body.model, "usage": usage}
    )

  async def rerank(
    self, request: fastapi.Request, body: types.RerankRequest
  ) -> responses.Response:
    """Sorts documents by their relevance to a query, as Jina and Cohere do.

    `results` has an `index` and a `relevance_score` for each document.
    """
    model = self._models.get(body.model)
    if model is None:
      raise HttpError(404, f"there is no model {body.model!r:.100}.")
    row = {"text": body.query, "text_b": body.documents}
    [answer] = await self._compute(request, model.signature(None), [row])
    results = answer["ranking"][: body.top_n]
    return await self._encode({"model": body.model, "results": results})

  async def _compute(
    self,
    request: fastapi.Request,
    signature: Signature,
    rows: Sequence[Any],
    max_rows: int | None = None,
  ) -> list[Any]:
    max_rows = max_rows or self._config.max_rows
    if not 0 < len(rows) <= max_rows:
      raise HttpError(
        400,
        f"the request has {len(rows)} rows, but this server takes 1 to "
        f"{max_rows} at a time.",
      )
    request.scope["rows"] = len(rows)
    if request.scope["num_bytes"] <= _LARGE_BYTES:
      inputs = signature.preprocess(rows)
    else:
      inputs = await self._texts.run(signature.preprocess, rows)
    num_windows = sum(len(row.sequences) for row in inputs)
    # At most one batch, because the requests in the queue take turns.
    request.scope["waiting"] = min(num_windows, self._config.max_batch_size)
    answers = await self._batcher.submit(signature, inputs)
    self._metrics.inputs(*signature.name, len(rows), num_windows)
    return answers

  async def _encode(self, answer: Any) -> responses.Response:
    """Returns the response, made in a thread if the answer has many values."""
    if batching.count_values(answer) <= _LARGE_ANSWER:
      return limits.json_response(answer)
    return await self._texts.run(limits.json_response, answer)

  def _find_model(self, request: fastapi.Request) -> ServedModel:
    name = request.path_params["name"]
    version = request.path_params.get("version")
    model = self._models.get(name)
    if model is None or version not in (None, str(model.version)):
      which = f"Latest({name:.100})"
      if version:
        which = f"Specific({name:.100}, {version:.20})"
      fault = f"Servable not found for request: {which}"
      names = ", ".join(self._models)
      raise HttpError(404, f"{fault}; this server has {names}.")
    return model


def run(
  predictors: Mapping[str, Predictor],
  config: ServerConfig,
  sockets: Sequence[socket.socket],
) -> None:
  """Serves at open sockets until SIGTERM or Ctrl-C, or at once the second."""
  server = Server(predictors, config)
  # Collecting TensorFlow's half a million objects would stop the event loop for
  # 0.3 s of a core, again and again while many requests wait.
  gc.collect()
  gc.freeze()
  server.uvicorn.run([*sockets])
