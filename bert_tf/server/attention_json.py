"""Requests for the attention of a model, which the page draws.

TensorFlow Serving does not have this path. `:predict` would return the
attention of all layers and heads, which may be megabytes.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf.export.signatures import attention
from bert_tf.server import config as server_config
from bert_tf.server import rest_json

# Decimal places of weights, to keep responses short.
_DECIMALS = 4


@dataclasses.dataclass(frozen=True)
class AttentionRequest:
  """A request for the attention of a layer and head."""

  signature_name: str
  inputs: Mapping[str, np.ndarray]  # The texts, as arrays of one row.
  layer: int  # Counts from 0.
  head: int | None  # Counts from 0; None for the mean of all heads.


def parse(
  value: Mapping[str, Any],
  functions: rest_json.Functions,
  limits: server_config.ServerConfig,
) -> AttentionRequest:
  """Parses the JSON object of a request.

  The keys are `text`, `text_b` (for pairs), `layer` (default 0) and `head`
  (default: the mean of all).

  Raises:
    ValueError: if the request does not match the model.
  """
  texts = {name: value[name] for name in ("text", "text_b") if name in value}
  name = attention.PAIR if "text_b" in texts else attention.SINGLE
  if name not in functions:
    raise ValueError(
      "this model has no attention functions; use a model with a head: export "
      "it with export_savedmodel.py --attention, or serve its checkpoint."
    )
  parsed = rest_json.predict_request(
    {"signature_name": name, "instances": [texts]}, functions, limits
  )
  shape = functions[name].outputs["attention"].shape  # [B, L, N, F, T]
  layer = _check_index("layer", value.get("layer", 0), shape[1])
  head = value.get("head")
  if head is not None:
    head = _check_index("head", head, shape[2])
  return AttentionRequest(name, parsed.inputs, layer, head)


def response(
  request: AttentionRequest, outputs: Mapping[str, np.ndarray]
) -> dict[str, Any]:
  """Returns the JSON object of a response: tokens and attention weights."""
  [probabilities] = outputs["attention"]
  heads = probabilities[request.layer]  # [N, F, T]
  shown = heads.mean(axis=0) if request.head is None else heads[request.head]
  return {
    "tokens": [token.decode() for token in outputs["tokens"][0]],
    "layer": request.layer,
    "head": request.head,
    "num_layers": len(probabilities),
    "num_heads": len(heads),
    "attention": np.round(shown.astype(np.float64), _DECIMALS).tolist(),
  }


def _check_index(name: str, value: Any, count: int) -> int:
  if not isinstance(value, int) or isinstance(value, bool):
    raise ValueError(f"{name} {value!r:.60} is not an integer.")
  if not 0 <= value < count:
    raise ValueError(f"there is no {name} {value}; use 0 to {count - 1}.")
  return value
