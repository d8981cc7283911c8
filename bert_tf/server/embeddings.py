"""Computes vectors of texts for requests of OpenAI's embeddings API.

Implements https://platform.openai.com/docs/api-reference/embeddings. Splits a
list of texts into groups of similar length and computes one group at a time.
Limits the word pieces of a group, with padding.
"""

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.export import saved_models
from bert_tf.export.signatures import encoders
from bert_tf.files import errors
from bert_tf.server import (
  access_log,
  computation,
  connections,
  limits,
  served,
)
from bert_tf.server import config as server_config

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

# OpenAI's limit of texts in a request.
MAX_TEXTS = 2048
FORMATS = ("float", "base64")

# [CLS] and [SEP].
_NUM_SPECIAL = 2


@dataclasses.dataclass(frozen=True)
class EmbeddingsRequest:
  """A parsed request."""

  model: served.ServedModel
  texts: Sequence[bytes]
  is_base64: bool  # Whether to encode vectors as little-endian float32.


class Embeddings:
  """Answers requests for vectors."""

  def __init__(
    self,
    models: Mapping[str, served.ServedModel],
    config: server_config.ServerConfig,
    computer: computation.Computation,
  ) -> None:
    self._models = models
    self._config = config
    self._computation = computer

  async def answer(self, request: web.Request) -> web.Response:
    """Answers `POST /v1/embeddings`."""
    parsed = await self._computation.parse(
      request, lambda value: parse(value, self._models, self._config)
    )
    request[access_log.NUM_ROWS] = len(parsed.texts)
    limits.check_answer(
      len(parsed.texts) * vector_width(parsed.model), self._config
    )
    num_pieces = await self._count(parsed)
    vectors, num_tokens = await self._compute(parsed, num_pieces)
    # Count the request last, so that refused requests are not counted.
    labels = parsed.model.name, saved_models.TEXT
    num_texts, num_bytes = len(parsed.texts), sum(map(len, parsed.texts))
    metrics = self._computation.metrics
    metrics.inputs(*labels, num_texts, num_bytes, num_texts)
    metrics.word_pieces(*labels, sum(num_pieces))
    return await self._computation.encode(
      lambda: connections.json_response(response(parsed, vectors, num_tokens)),
      vectors.size,
    )

  async def _count(self, parsed: EmbeddingsRequest) -> list[int]:
    """Returns the word pieces of each text, without [CLS] and [SEP]."""
    remaining = parsed.model.text_lengths(parsed.texts)
    counting = self._computation.counting
    num_pieces: list[int] = []
    while some := await counting.run(next, remaining, None):
      num_pieces += some
    return num_pieces

  async def _compute(
    self, parsed: EmbeddingsRequest, num_pieces: Sequence[int]
  ) -> tuple[np.ndarray, int]:
    """Returns the vectors, float32 [B, D], and the number of word pieces."""
    model = parsed.model
    lengths = [
      min(count + _NUM_SPECIAL, model.max_seq_length) for count in num_pieces
    ]
    vectors = np.zeros((len(lengths), vector_width(model)), np.float32)
    num_tokens = 0
    max_tokens = self._config.max_batch_size * model.max_seq_length
    name = computation.FunctionName(model.name, saved_models.TEXT, at_once=True)
    # One group at a time, so that other requests are computed in between.
    for group in split(lengths, max_tokens):
      texts = np.array([parsed.texts[i] for i in group], object)
      outputs = await self._computation.batcher.submit(
        name, {"text": texts}, max(lengths[i] for i in group)
      )
      vectors[group] = outputs[encoders.EMBEDDING]
      num_tokens += int(outputs[encoders.NUM_TOKENS].sum())
    return vectors, num_tokens


def split(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
  """Groups texts of similar length; returns the indices of each group's texts.

  A group has at most max_tokens word pieces, with each text padded to the
  longest of the group. A text above the maximum is a group of its own.
  """
  groups: list[list[int]] = []
  for index in sorted(range(len(lengths)), key=lengths.__getitem__):
    if not groups or (len(groups[-1]) + 1) * lengths[index] > max_tokens:
      groups.append([])
    groups[-1].append(index)
  return groups


def vector_width(model: served.ServedModel) -> int:
  """Returns the number of values in a vector of the model."""
  function = model.functions[saved_models.TEXT]
  return function.outputs[encoders.EMBEDDING].shape[-1]


def has_vectors(model: served.ServedModel) -> bool:
  """Returns whether a model computes vectors of texts."""
  function = model.functions.get(saved_models.TEXT)
  return function is not None and encoders.EMBEDDING in function.outputs


def parse(
  value: Mapping[str, Any],
  models: Mapping[str, served.ServedModel],
  config: server_config.ServerConfig,
) -> EmbeddingsRequest:
  """Parses the JSON object of a request.

  Raises:
    limits.HttpError: if the request does not match a model or exceeds a limit.
  """
  model_name = value.get("model")
  if not isinstance(model_name, str) or model_name not in models:
    is_name = isinstance(model_name, str)
    raise _error(
      "model",
      f"there is no model {model_name!r:.100}; this server has "
      f"{errors.join_names(list(models))}.",
      404 if is_name else 400,
      "model_not_found" if is_name else None,
    )
  model = models[model_name]
  if not has_vectors(model):
    raise _error(
      "model",
      f"the model {model_name!r:.100} computes no vectors of texts; serve or "
      "export its checkpoint with `task=encoder`.",
    )
  encoding = value.get("encoding_format", FORMATS[0])
  if encoding not in FORMATS:
    raise _error(
      "encoding_format",
      f"encoding_format is {encoding!r:.100}; use {' or '.join(FORMATS)}.",
    )
  width, dimensions = vector_width(model), value.get("dimensions")
  if dimensions is not None and (
    isinstance(dimensions, bool) or dimensions != width
  ):
    raise _error(
      "dimensions",
      f"dimensions is {dimensions!r:.100}; the vectors of this model have "
      f"{width} values and cannot be shortened.",
    )
  texts = _parse_input(value.get("input"), config)
  return EmbeddingsRequest(model, texts, encoding == FORMATS[1])


def response(
  parsed: EmbeddingsRequest, vectors: np.ndarray, num_tokens: int
) -> dict[str, Any]:
  """Returns the JSON object of a response."""
  if parsed.is_base64:
    encoded: list[Any] = [
      base64.b64encode(vector.astype("<f4").tobytes()).decode()
      for vector in vectors
    ]
  else:
    encoded = vectors.tolist()
  return {
    "object": "list",
    "data": [
      {"object": "embedding", "index": index, "embedding": vector}
      for index, vector in enumerate(encoded)
    ],
    "model": parsed.model.name,
    "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
  }


def _parse_input(value: Any, config: server_config.ServerConfig) -> list[bytes]:
  """Returns the texts of `input` in UTF-8; raises HttpError if invalid."""
  items = value if isinstance(value, list) else [value]
  if not items or not all(isinstance(item, str) for item in items):
    raise _error(
      "input",
      "input has to be a text or a list of texts, at least one. Lists of "
      "token ids are not supported: their ids belong to another vocabulary.",
    )
  if len(items) > MAX_TEXTS:
    raise _error(
      "input",
      f"input has {len(items)} texts; the limit is {MAX_TEXTS}: send several "
      "requests.",
    )
  texts = []
  for index, item in enumerate(items):
    try:
      texts.append(item.encode("utf-8"))
    except UnicodeEncodeError as error:
      raise _error(
        "input",
        f"text {index} of input is not Unicode: surrogate at {error.start}.",
      ) from error
    if len(texts[-1]) > config.max_text_length:
      raise _error(
        "input",
        f"text {index} of input has {len(texts[-1])} bytes; the limit of this "
        f"server is {config.max_text_length}: shorten it.",
      )
  return texts


def _error(
  param: str, message: str, status: int = 400, code: str | None = None
) -> limits.HttpError:
  return limits.HttpError(status, message, param, code)
