"""Parts of the OpenAPI document: schemas of values and operations."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

Json = dict[str, Any]

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

# Errors of the liveness checks and of the readiness checks.
NOT_ALIVE = {
  500: "Requests are not computed any more.",
  503: "A stage has stalled.",
}
NOT_READY = {503: "Not ready yet, stalled or stopping."}


def ref(name: str) -> Json:
  """Returns a reference to a schema of the document."""
  return {"$ref": f"#/components/schemas/{name}"}


def object_of(properties: Json, optional: Sequence[str] = ()) -> Json:
  """Returns the schema of an object with these properties and no others.

  Properties that are not `optional` are required.
  """
  return {
    "type": "object",
    "properties": properties,
    "required": [name for name in properties if name not in optional],
    "additionalProperties": False,
  }


def answer(text: str, schema: Json, kind: str = "application/json") -> Json:
  """Returns a response with a description; `kind` is the Content-Type."""
  return {"description": text, "content": {kind: {"schema": schema}}}


def get(text: str, schema: Json, kind: str = "application/json") -> Json:
  """Returns a GET operation without errors; `text` describes it."""
  answers = {"200": answer(text, schema, kind)}
  return {"get": {"summary": text, "responses": answers}}


def post(
  text: str,
  request: Json,
  response: Json,
  examples: Json,
  error: str = "error",
) -> Json:
  """Returns a POST operation; `error` names the schema of its errors."""
  content = {"schema": request, "examples": examples}
  answers = {"200": answer(text, response)}
  for status, reason in _ERRORS.items():
    answers[str(status)] = answer(reason, ref(error))
  body = {"required": True, "content": {"application/json": content}}
  return {"post": {"summary": text, "requestBody": body, "responses": answers}}


def add_errors(operations: Json, reasons: Mapping[int, str]) -> None:
  """Adds error responses to the GET operation of a path."""
  for status, reason in reasons.items():
    error = answer(reason, ref("error"))
    operations["get"]["responses"][str(status)] = error


def array(spec: tf.TensorSpec, value: Json, first: int) -> Json:
  """Returns the schema of an array as nested lists.

  Args:
    spec: the shape of the array. An array of unknown rank may be anything.
    value: the schema of an element.
    first: the first dimension to describe, such as 1 for a row of a batch.
  """
  if spec.shape.rank is None:
    return {}
  schema = value
  for size in reversed(spec.shape.as_list()[first:]):
    schema = {"type": "array", "items": schema}
    if size is not None:
      schema |= {"minItems": size, "maxItems": size}
  return schema


def value(dtype: tf.DType) -> Json:
  """Returns the schema of a text, bool or number of this dtype."""
  if dtype == tf.string:
    return {"type": "string"}
  if dtype.is_bool:
    return {"type": "boolean"}
  if dtype.is_floating:
    return {"type": "number"}
  return {"type": "integer", "minimum": dtype.min, "maximum": dtype.max}
