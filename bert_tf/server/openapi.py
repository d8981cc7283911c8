"""Describes the interface of a server in OpenAPI 3.1.

The schemas of requests and responses follow from dtypes and shapes of the
model's functions; each signature has a request and a response.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import bert_tf
from bert_tf import modeling
from bert_tf.export import saved_models
from bert_tf.export.signatures import attention
from bert_tf.inference import loaded_model
from bert_tf.server import config as server_config
from bert_tf.server import rest_json, served

Json = dict[str, Any]

_BASE64: Json = {
  "type": "object",
  "properties": {
    "b64": {
      "type": "string",
      "contentEncoding": "base64",
      "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    }
  },
  "required": ["b64"],
  "additionalProperties": False,
}
_ERRORS = {
  400: "The request does not match the model.",
  403: "The Host is not accepted.",
  408: "The body took too long to arrive.",
  413: "The request or its answer is too large.",
  415: "The Content-Type is not application/json, or the body is compressed.",
  417: "Expect is not 100-continue.",
  500: "The server failed; its log has the reason.",
  503: "Too many requests, or the server is stopping; Retry-After has seconds.",
}


def document(
  models: Sequence[served.ServedModel], limits: server_config.ServerConfig
) -> Json:
  """Returns the OpenAPI document of a server.

  Args:
    models: one or more models.
    limits: the limits of requests.
  """
  schemas: Json = {
    "error": _object({"error": {"type": "string"}}),
    "attention_response": _attention_response(),
    "about": _about(),
  }
  paths = _common_paths()
  for number, model in enumerate(models, start=1):
    # Names of schemas must be ASCII, unlike names of models.
    prefix = f"model_{number}_" if number > 1 else ""
    functions = model.functions
    if attention.SINGLE in functions:
      schemas[f"{prefix}attention_request"] = _attention_request(
        functions, limits
      )
    for signature, function in functions.items():
      name = f"{prefix}predict_{signature}"
      schemas[f"{name}_request"] = _request(
        signature, function, limits, model.bert_config
      )
      schemas[f"{name}_response"] = _response(function)
    paths |= _model_paths(model, prefix)
  title = ", ".join(model.name for model in models)
  return {
    "openapi": "3.1.0",
    "info": {"title": title, "version": f"{models[0].version}"},
    "x-bert-tf-version": bert_tf.__version__,
    "paths": paths,
    "components": {"schemas": schemas},
  }


def _common_paths() -> Json:
  """Returns the paths of the server that do not depend on a model."""
  health = _object({k: {"type": "string"} for k in ("status", "model")})
  health["properties"]["version"] = {"type": "string"}
  models = _object({"models": {"type": "array", "items": _ref("about")}})
  paths = {
    "/": _get("The web page.", {"type": "string"}, "text/html"),
    "/healthz": _get("Whether the server runs; its first model.", health),
    "/readyz": _get("Whether the models are warm.", health),
    "/metrics": _get("Prometheus metrics.", {"type": "string"}, "text/plain"),
    "/openapi.json": _get("This document.", {"type": "object"}),
    "/v1/models": _get("Descriptions of the models.", models),
  }
  alive, ready = (
    paths[path]["get"]["responses"] for path in ("/healthz", "/readyz")
  )
  alive["500"] = _answer("Requests are not computed any more.", _ref("error"))
  alive["503"] = _answer("A stage has stalled.", _ref("error"))
  ready["503"] = _answer("Not ready yet, stalled or stopping.", _ref("error"))
  return paths


def _model_paths(model: served.ServedModel, prefix: str) -> Json:
  """Returns the paths of a model."""
  functions = model.functions
  names = [f"{prefix}predict_{signature}" for signature in functions]
  predict = _post(
    "Predicts for rows.",
    {"anyOf": [_ref(f"{name}_request") for name in names]},
    {"anyOf": [_ref(f"{name}_response") for name in names]},
    {s: {"value": _example(s, f)} for s, f in functions.items()},
  )
  paths: Json = {}
  latest = f"/v1/models/{model.name}"
  for path in (latest, f"{latest}/versions/{model.version}"):
    paths |= {
      path: _get("Status of the model.", {"type": "object"}),
      f"{path}/metadata": _get("Inputs and outputs.", {"type": "object"}),
      f"{path}:predict": predict,
    }
    if attention.SINGLE in functions:
      paths[f"{path}:attention"] = _post(
        "Attention of a layer for a text or a pair.",
        _ref(f"{prefix}attention_request"),
        _ref("attention_response"),
        _attention_examples(functions),
      )
  return paths


def _about() -> Json:
  """Returns the schema of a model's description; most keys are optional."""
  text, number = {"type": "string"}, {"type": "number"}
  count, flag = {"type": "integer", "minimum": 0}, {"type": "boolean"}
  texts = {"type": "array", "items": text}
  numbers = {"type": "object", "additionalProperties": number}
  inputs = {
    "type": "object",
    "additionalProperties": {"anyOf": [text, texts]},
  }
  example = _object({"inputs": inputs, "answer": {}})
  known: Json = {
    **dict.fromkeys(("task", "task_name", "problem_type"), text),
    **dict.fromkeys(("is_pair", "do_lower_case"), flag),
    **dict.fromkeys(
      ("max_seq_length", "num_train_examples", "num_dev_examples"), count
    ),
    "labels": texts,
    "label_names": {"type": "object", "additionalProperties": text},
    "scores": numbers,
    "size": {"type": "object", "additionalProperties": count},
    "examples": {"type": "array", "items": example},
  }
  return _object({"name": text, "version": text, **known}, tuple(known))


def _ref(name: str) -> Json:
  return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: Json, optional: Sequence[str] = ()) -> Json:
  """Returns the schema of an object with only these properties."""
  return {
    "type": "object",
    "properties": properties,
    "required": [name for name in properties if name not in optional],
    "additionalProperties": False,
  }


def _answer(text: str, schema: Json, kind: str = "application/json") -> Json:
  return {"description": text, "content": {kind: {"schema": schema}}}


def _get(text: str, schema: Json, kind: str = "application/json") -> Json:
  answer = _answer(text, schema, kind)
  return {"get": {"summary": text, "responses": {"200": answer}}}


def _post(text: str, request: Json, response: Json, examples: Json) -> Json:
  content = {"schema": request, "examples": examples}
  answers = {"200": _answer(text, response)}
  for status, reason in _ERRORS.items():
    answers[str(status)] = _answer(reason, _ref("error"))
  body = {"required": True, "content": {"application/json": content}}
  return {"post": {"summary": text, "requestBody": body, "responses": answers}}


def _request(
  signature: str,
  function: loaded_model.Function,
  limits: server_config.ServerConfig,
  config: modeling.BertConfig | None,
) -> Json:
  """Returns the schema of a `:predict` request to a signature."""
  values = {
    name: _input_value(name, spec, limits, config)
    for name, spec in function.inputs.items()
  }
  specs = function.inputs
  row = _object({k: _array(specs[k], v, 1) for k, v in values.items()})
  columns = _object({k: _array(specs[k], v, 0) for k, v in values.items()})
  num_rows = {"minItems": 1, "maxItems": limits.max_rows}
  for column in columns["properties"].values():
    if column:  # A column of unknown rank may be anything.
      column |= num_rows | column
  if len(function.inputs) == 1:  # The name is optional.
    row = {"anyOf": [row, *row["properties"].values()]}
    columns = {"anyOf": [columns, *columns["properties"].values()]}
  rows = {"type": "array", "items": row} | num_rows
  named: Json = {"signature_name": {"const": signature}}
  optional = ["signature_name"] if signature == saved_models.DEFAULT else []
  return {
    "oneOf": [
      _object(named | {"instances": rows}, optional),
      _object(named | {"inputs": columns}, optional),
    ]
  }


def _response(function: loaded_model.Function) -> Json:
  """Returns the schema of a response, in row or column format."""
  specs = function.outputs
  rows = {k: _array(s, _output_value(k, s), 1) for k, s in specs.items()}
  columns = {k: _array(s, _output_value(k, s), 0) for k, s in specs.items()}
  if len(rows) == 1:
    row, column = *rows.values(), *columns.values()
  else:
    row, column = _object(rows), _object(columns)
  predictions = {"type": "array", "items": row}
  return {
    "oneOf": [
      _object({"predictions": predictions}),
      _object({"outputs": column}),
    ]
  }


def _array(spec: tf.TensorSpec, value: Json, first: int) -> Json:
  """Returns the schema of nested lists, one for each dimension from `first` on.

  `value` is the schema of an element. An array of unknown rank may be anything.
  """
  if spec.shape.rank is None:
    return {}
  schema = value
  for size in reversed(spec.shape.as_list()[first:]):
    schema = {"type": "array", "items": schema}
    if size is not None:
      schema |= {"minItems": size, "maxItems": size}
  return schema


def _input_value(
  name: str,
  spec: tf.TensorSpec,
  limits: server_config.ServerConfig,
  config: modeling.BertConfig | None,
) -> Json:
  """Returns the schema of an element of an input."""
  if spec.dtype == tf.string:
    # A character has at least one byte.
    text = {"type": "string", "maxLength": limits.max_text_length}
    return {"anyOf": [text, _BASE64]}
  value = _value(spec.dtype)
  sizes = {"input_mask": 2}
  if config:
    sizes["input_ids"] = config.vocab_size
    sizes["segment_ids"] = config.type_vocab_size
  if name in sizes and spec.dtype.is_integer:
    value |= {"minimum": 0, "maximum": sizes[name] - 1}
  return value


def _output_value(name: str, spec: tf.TensorSpec) -> Json:
  """Returns the schema of an element of an output."""
  if name in rest_json.ANSWERS:
    return {"type": ["string", "null"]}
  if spec.dtype == tf.string and name.endswith(rest_json.BYTES_SUFFIX):
    return _BASE64
  return _value(spec.dtype)


def _value(dtype: tf.DType) -> Json:
  """Returns the schema of an element of a dtype: number, bool or text."""
  if dtype == tf.string:
    return {"type": "string"}
  if dtype.is_bool:
    return {"type": "boolean"}
  if dtype.is_floating:
    return {"type": "number"}
  return {"type": "integer", "minimum": dtype.min, "maximum": dtype.max}


def _example(signature: str, function: loaded_model.Function) -> Json:
  """Returns an example request of one row."""
  row = {name: _plain(array[0]) for name, array in function.sample().items()}
  return {"signature_name": signature, "instances": [row]}


def _plain(value: Any) -> Any:
  """Converts an array, or a value of it, to JSON values."""
  if isinstance(value, np.ndarray):
    return [_plain(item) for item in value]
  return value.decode() if isinstance(value, bytes) else value.item()


def _attention_request(
  functions: Mapping[str, loaded_model.Function],
  limits: server_config.ServerConfig,
) -> Json:
  spec = functions[attention.SINGLE].inputs["text"]
  text = _input_value("text", spec, limits, None)
  num_layers, num_heads = (
    functions[attention.SINGLE].outputs["attention"].shape[1:3]
  )
  layer = {"type": "integer", "minimum": 0, "maximum": num_layers - 1}
  head = {"type": ["integer", "null"], "minimum": 0, "maximum": num_heads - 1}
  properties = {"text": text, "text_b": text, "layer": layer, "head": head}
  return _object(properties, ("text_b", "layer", "head"))


def _attention_response() -> Json:
  count = {"type": "integer", "minimum": 0}
  row = {"type": "array", "items": {"type": "number"}}
  return _object(
    {
      "tokens": {"type": "array", "items": {"type": "string"}},
      "layer": count,
      "head": {"type": ["integer", "null"]},
      "num_layers": count,
      "num_heads": count,
      "attention": {"type": "array", "items": row},
    }
  )


def _attention_examples(functions: Mapping[str, Any]) -> Json:
  values = {
    attention.SINGLE: {"text": loaded_model.SAMPLE_TEXT, "layer": 0, "head": 0},
    attention.PAIR: {
      "text": loaded_model.SAMPLE_TEXT,
      "text_b": loaded_model.SAMPLE_TEXT,
    },
  }
  return {s: {"value": v} for s, v in values.items() if s in functions}
