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
from bert_tf.server import openapi_clients, rest_json, schemas, served

Json = schemas.Json

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


def document(
  models: Sequence[served.ServedModel], limits: server_config.ServerConfig
) -> Json:
  """Returns the OpenAPI document of a server.

  Args:
    models: one or more models.
    limits: the limits of requests.
  """
  components: Json = {
    "error": schemas.object_of({"error": {"type": "string"}}),
    "attention_response": _attention_response(),
    "about": _about(),
  }
  paths = _common_paths()
  for number, model in enumerate(models, start=1):
    # Names of schemas must be ASCII, unlike names of models.
    prefix = f"model_{number}_" if number > 1 else ""
    components |= _model_schemas(model, prefix, limits)
    paths |= _model_paths(model, prefix)
  client_paths, client_schemas = openapi_clients.describe(models, limits)
  paths |= client_paths
  components |= client_schemas
  title = ", ".join(model.name for model in models)
  return {
    "openapi": "3.1.0",
    "info": {"title": title, "version": f"{models[0].version}"},
    "x-bert-tf-version": bert_tf.__version__,
    "paths": paths,
    "components": {"schemas": components},
  }


def _model_schemas(
  model: served.ServedModel, prefix: str, limits: server_config.ServerConfig
) -> Json:
  """Returns the schemas of a model's requests and responses by name."""
  components: Json = {}
  functions = model.functions
  if attention.SINGLE in functions:
    components[f"{prefix}attention_request"] = _attention_request(
      functions, limits
    )
  for signature, function in functions.items():
    name = f"{prefix}predict_{signature}"
    components[f"{name}_request"] = _request(
      signature, function, limits, model.bert_config
    )
    components[f"{name}_response"] = _response(function)
  return components


def _common_paths() -> Json:
  """Returns the paths of the server that do not depend on a model."""
  health = schemas.object_of(
    {k: {"type": "string"} for k in ("status", "model")}
  )
  health["properties"]["version"] = {"type": "string"}
  models = schemas.object_of(
    {
      "models": {"type": "array", "items": schemas.ref("about")},
      **openapi_clients.model_list(),
    }
  )
  paths = {
    "/": schemas.get("The web page.", {"type": "string"}, "text/html"),
    "/healthz": schemas.get(
      "Whether the server runs; its first model.", health
    ),
    "/readyz": schemas.get("Whether the models are warm.", health),
    "/metrics": schemas.get(
      "Prometheus metrics.", {"type": "string"}, "text/plain"
    ),
    "/openapi.json": schemas.get("This document.", {"type": "object"}),
    "/v1/models": schemas.get("Descriptions of the models.", models),
  }
  schemas.add_errors(paths["/healthz"], schemas.NOT_ALIVE)
  schemas.add_errors(paths["/readyz"], schemas.NOT_READY)
  return paths


def _model_paths(model: served.ServedModel, prefix: str) -> Json:
  """Returns the paths of a model."""
  functions = model.functions
  names = [f"{prefix}predict_{signature}" for signature in functions]
  predict = schemas.post(
    "Predicts for rows.",
    {"anyOf": [schemas.ref(f"{name}_request") for name in names]},
    {"anyOf": [schemas.ref(f"{name}_response") for name in names]},
    {s: {"value": _example(s, f)} for s, f in functions.items()},
  )
  paths: Json = {}
  latest = f"/v1/models/{model.name}"
  for path in (latest, f"{latest}/versions/{model.version}"):
    paths |= {
      path: schemas.get("Status of the model.", {"type": "object"}),
      f"{path}/metadata": schemas.get(
        "Inputs and outputs.", {"type": "object"}
      ),
      f"{path}:predict": predict,
    }
    if attention.SINGLE in functions:
      paths[f"{path}:attention"] = schemas.post(
        "Attention of a layer for a text or a pair.",
        schemas.ref(f"{prefix}attention_request"),
        schemas.ref("attention_response"),
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
  example = schemas.object_of({"inputs": inputs, "answer": {}})
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
  return schemas.object_of(
    {"name": text, "version": text, **known}, tuple(known)
  )


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
  row = schemas.object_of(
    {k: schemas.array(specs[k], v, 1) for k, v in values.items()}
  )
  columns = schemas.object_of(
    {k: schemas.array(specs[k], v, 0) for k, v in values.items()}
  )
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
      schemas.object_of(named | {"instances": rows}, optional),
      schemas.object_of(named | {"inputs": columns}, optional),
    ]
  }


def _response(function: loaded_model.Function) -> Json:
  """Returns the schema of a response, in row or column format."""
  specs = function.outputs
  rows = {k: schemas.array(s, _output_value(k, s), 1) for k, s in specs.items()}
  columns = {
    k: schemas.array(s, _output_value(k, s), 0) for k, s in specs.items()
  }
  if len(rows) == 1:
    row, column = *rows.values(), *columns.values()
  else:
    row, column = schemas.object_of(rows), schemas.object_of(columns)
  predictions = {"type": "array", "items": row}
  return {
    "oneOf": [
      schemas.object_of({"predictions": predictions}),
      schemas.object_of({"outputs": column}),
    ]
  }


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
  value = schemas.value(spec.dtype)
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
  return schemas.value(spec.dtype)


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
  return schemas.object_of(properties, ("text_b", "layer", "head"))


def _attention_response() -> Json:
  count = {"type": "integer", "minimum": 0}
  row = {"type": "array", "items": {"type": "number"}}
  return schemas.object_of(
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
