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

# Errors of the paths that tell whether the server runs, or can answer.
NOT_ALIVE = {
  500: "Requests are not computed any more.",
  503: "A stage has stalled.",
}
NOT_READY = {503: "Not ready yet, stalled or stopping."}


def ref(name: str) -> Json:
  """Returns a reference to a schema of the document."""
  return {"$ref": f"#/components/schemas/{name}"}


def object_of(properties: Json, optional: Sequence[str] = ()) -> Json:
  """Returns the schema of an object with only these properties."""
  return {
    "type": "object",
    "properties": properties,
    "required": [name for name in properties if name not in optional],
    "additionalProperties": False,
  }


def answer(text: str, schema: Json, kind: str = "application/json") -> Json:
  """Returns a response; `kind` is its Content-Type."""
  return {"description": text, "content": {kind: {"schema": schema}}}


def get(text: str, schema: Json, kind: str = "application/json") -> Json:
  """Returns a GET operation."""
  answers = {"200": answer(text, schema, kind)}
  return {"get": {"summary": text, "responses": answers}}


def post(
  text: str,
  request: Json,
  response: Json,
  examples: Json,
  error: str = "error",
) -> Json:
  """Returns a POST operation; `error` is the name of its errors' schema."""
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


def value(dtype: tf.DType) -> Json:
  """Returns the schema of an element of a dtype: number, bool or text."""
  if dtype == tf.string:
    return {"type": "string"}
  if dtype.is_bool:
    return {"type": "boolean"}
  if dtype.is_floating:
    return {"type": "number"}
  return {"type": "integer", "minimum": dtype.min, "maximum": dtype.max}
