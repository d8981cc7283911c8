"""Describes the paths of OpenAI's API and of KServe's protocol in OpenAPI."""

from collections.abc import Mapping, Sequence

from bert_tf.inference import loaded_model
from bert_tf.server import config as server_config
from bert_tf.server import connections, embeddings, kserve, schemas, served


def describe(
  models: Sequence[served.ServedModel], limits: server_config.ServerConfig
) -> tuple[schemas.Json, schemas.Json]:
  """Returns the paths of both APIs, and the schemas that the paths use.

  Args:
    models: one or more models.
    limits: the limits of requests.
  """
  paths, components = _describe_kserve(models)
  with_vectors = {
    model.name: embeddings.vector_width(model)
    for model in models
    if embeddings.has_vectors(model)
  }
  if not with_vectors:
    return paths, components
  example = {
    "model": next(iter(with_vectors)),
    "input": [loaded_model.SAMPLE_TEXT],
  }
  post = schemas.post(
    "Vectors of texts, as OpenAI's API returns them.",
    schemas.ref("embeddings_request"),
    schemas.ref("embeddings_response"),
    {"list": {"value": example}},
    "openai_error",
  )
  post["post"]["responses"]["404"] = schemas.answer(
    "There is no such model.", schemas.ref("openai_error")
  )
  paths[connections.EMBEDDINGS_PATH] = post
  return paths, components | {
    "embeddings_request": _request(with_vectors, limits),
    "embeddings_response": _response(),
    "openai_error": _error(),
  }


def model_list() -> schemas.Json:
  """Returns the properties of OpenAI's list of models."""
  model = {"id": {"type": "string"}, "object": {"const": "model"}}
  model |= {"created": {"type": "integer"}, "owned_by": {"type": "string"}}
  return {
    "object": {"const": "list"},
    "data": {"type": "array", "items": schemas.object_of(model)},
  }


def _describe_kserve(
  models: Sequence[served.ServedModel],
) -> tuple[schemas.Json, schemas.Json]:
  """Returns the paths of KServe's protocol, and the schemas that they use."""
  flag, text = {"type": "boolean"}, {"type": "string"}
  live, ready = (schemas.object_of({name: flag}) for name in ("live", "ready"))
  server: schemas.Json = {"name": text, "version": text}
  server["extensions"] = {"type": "array", "items": text}
  paths = {
    "/v2": schemas.get("The server.", schemas.object_of(server)),
    "/v2/health/live": schemas.get("Whether requests are computed.", live),
    "/v2/health/ready": schemas.get("Whether the models are warm.", ready),
  }
  schemas.add_errors(paths["/v2/health/live"], schemas.NOT_ALIVE)
  schemas.add_errors(paths["/v2/health/ready"], schemas.NOT_READY)
  model_ready = schemas.object_of({"name": text, "ready": flag})
  for model in models:
    infer = schemas.post(
      "Computes a function. The parameter signature_name chooses it.",
      schemas.ref("infer_request"),
      schemas.ref("infer_response"),
      {
        name: {"value": kserve.example(name, function)}
        for name, function in model.functions.items()
      },
    )
    latest = f"/v2/models/{model.name}"
    for path in (latest, f"{latest}/versions/{model.version}"):
      paths[path] = schemas.get(
        "Inputs and outputs of the default function.",
        schemas.ref("model_metadata"),
      )
      paths[f"{path}/ready"] = schemas.get("Whether it is warm.", model_ready)
      schemas.add_errors(paths[f"{path}/ready"], schemas.NOT_READY)
      paths[f"{path}/infer"] = infer
  return paths, _kserve_schemas()


def _kserve_schemas() -> schemas.Json:
  """Returns the schemas of models, requests and responses."""
  text, parameters = {"type": "string"}, {"type": "object"}
  size = {"type": "integer", "minimum": 0}
  tensor = {
    "name": text,
    "datatype": {"enum": list(kserve.DATATYPES.values())},
    "shape": {"type": "array", "items": size},
  }
  data = {"parameters": parameters, "data": {"type": "array"}}
  any_size = {"type": "array", "items": {"type": "integer", "minimum": -1}}
  described = schemas.object_of({**tensor, "shape": any_size})
  output = schemas.object_of({"name": text, "parameters": parameters})
  output["required"] = ["name"]

  def list_of(item: schemas.Json) -> schemas.Json:
    return {"type": "array", "items": item, "minItems": 1}

  input_tensor = schemas.object_of({**tensor, **data}, ("parameters", "data"))
  request = {
    "id": text,
    "parameters": parameters,
    "inputs": list_of(input_tensor),
  }
  request["outputs"] = list_of(output)
  response = {"model_name": text, "model_version": text, "id": text}
  response["outputs"] = list_of(input_tensor)
  metadata = {"name": text, "platform": text}
  metadata |= {"versions": list_of(text)}
  metadata |= {"inputs": list_of(described), "outputs": list_of(described)}
  return {
    "model_metadata": schemas.object_of(metadata),
    "infer_request": schemas.object_of(
      request, ("id", "parameters", "outputs")
    ),
    "infer_response": schemas.object_of(response, ("id",)),
  }


def _request(
  widths: Mapping[str, int], limits: server_config.ServerConfig
) -> schemas.Json:
  """Returns the schema of a request for vectors.

  `widths` has the number of values in a vector, by model name.
  """
  # The limit is in bytes, and a character has at least one byte.
  text = {"type": "string", "maxLength": limits.max_text_length}
  texts = {"type": "array", "items": text, "minItems": 1}
  texts["maxItems"] = embeddings.MAX_TEXTS
  return schemas.object_of(
    {
      "model": {"enum": list(widths)},
      "input": {"anyOf": [text, texts]},
      "encoding_format": {"enum": list(embeddings.FORMATS)},
      "dimensions": {"enum": [None, *set(widths.values())]},
      "user": {},  # Ignored.
    },
    ("encoding_format", "dimensions", "user"),
  )


def _response() -> schemas.Json:
  """Returns the schema of a response with vectors."""
  count = {"type": "integer", "minimum": 0}
  vector = {"type": "array", "items": {"type": "number"}}
  encoded = {"type": "string", "contentEncoding": "base64"}
  row = schemas.object_of(
    {
      "object": {"const": "embedding"},
      "index": count,
      "embedding": {"anyOf": [vector, encoded]},
    }
  )
  usage = schemas.object_of({"prompt_tokens": count, "total_tokens": count})
  return schemas.object_of(
    {
      "object": {"const": "list"},
      "data": {"type": "array", "items": row},
      "model": {"type": "string"},
      "usage": usage,
    }
  )


def _error() -> schemas.Json:
  """Returns the schema of an error in OpenAI's form."""
  known = dict.fromkeys(("message", "type"), {"type": "string"})
  optional = dict.fromkeys(("param", "code"), {"type": ["string", "null"]})
  return schemas.object_of({"error": schemas.object_of({**known, **optional})})
