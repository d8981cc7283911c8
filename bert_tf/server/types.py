"""The JSON of requests, from which OpenAPI follows.

It follows https://www.tensorflow.org/tfx/serving/api_rest, except that answers
to texts are those of `bert_tf.load(...).predict`, and
https://platform.openai.com/docs/api-reference/embeddings. Error messages start
as in TensorFlow Serving and add details.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic

# OpenAI's limit of texts in a request.
MAX_TEXTS = 2048

_Id = Annotated[int, pydantic.Field(strict=True, ge=0, lt=1 << 31)]
# A row of ids, by the rank of the model's `input_ids`: 3 with choices.
_IDS: Mapping[int, pydantic.TypeAdapter] = {
  2: pydantic.TypeAdapter(dict[str, list[_Id]]),
  3: pydantic.TypeAdapter(
    dict[str, list[Annotated[list[_Id], pydantic.Field(min_length=1)]]]
  ),
}
_Index = Annotated[int, pydantic.Field(strict=True, ge=0)]


class PredictRequest(pydantic.BaseModel):
  """Rows, as `instances`, or columns, as `inputs`.

  An instance is an object of a row's values by name, or a text if the model
  reads one. `inputs` has lists of these values, by name. Texts that are not
  UTF-8 are {"b64": ...}.
  """

  signature_name: str | None = None
  instances: list[Any] | None = None
  inputs: dict[str, list[Any]] | list[Any] | None = None

  @pydantic.model_validator(mode="after")
  def _check_form(self) -> "PredictRequest":
    if (self.instances is None) == (self.inputs is None):
      raise ValueError(
        "Missing 'inputs' or 'instances' key."
        if self.inputs is None
        else "Not formatted correctly: the request has both 'instances' and "
        "'inputs'; give only one of them."
      )
    return self

  def rows(self, fields: Sequence[str]) -> list[Any]:
    """Returns the rows, which columns must give in the same number."""
    if self.instances is not None:
      return self.instances
    columns = self.inputs or []
    if isinstance(columns, list):
      columns = {fields[0]: columns}
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) != 1:
      raise ValueError(f"inputs differ in their numbers of rows: {counts}.")
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


class ClassifyRequest(pydantic.BaseModel):
  """Texts to classify; `context` has fields that all examples share."""

  signature_name: str | None = None
  context: dict[str, Any] = {}
  examples: list[dict[str, Any]]


class AttentionRequest(pydantic.BaseModel):
  """A text or a pair, a layer, and a head; without one the mean of all."""

  text: str
  text_b: str | None = None
  layer: _Index = 0
  head: _Index | None = None


class EmbeddingsRequest(pydantic.BaseModel):
  """Texts, in OpenAI's form; base64 is of little-endian float32."""

  model: str
  input: str | list[str]
  encoding_format: Literal["float", "base64"] = "float"
  dimensions: _Index | None = None

  @pydantic.field_validator("input", mode="before")
  @classmethod
  def _check_input(cls, value: Any) -> Any:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
      raise ValueError(
        "it must be a text or a list of texts. Lists of token ids would belong "
        "to another vocabulary."
      )
    return items


def read_ids(
  index: int, row: Any, fields: Sequence[str], rank: int
) -> dict[str, Any]:
  """Returns the word-piece ids of a row by field; for rank 3 of its choices."""
  try:
    values = _IDS[rank].validate_python(row)
  except pydantic.ValidationError as error:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or ", ".join(fields)
    raise ValueError(f"row {index}: {place}: {first['msg']}.") from error
  if values.keys() != set(fields) or not values["input_ids"]:
    raise ValueError(
      f"row {index} has {', '.join(values)}, but it needs {', '.join(fields)}, "
      "with at least one id."
    )
  counts = {name: len(values[name]) for name in fields[:3]}
  if len(set(counts.values())) > 1:
    raise ValueError(f"row {index} has values of different lengths: {counts}.")
  return values


def decode_texts(name: str, value: Any, max_bytes: int) -> Any:
  """Decodes Base64 texts in objects and lists; checks the lengths of all."""
  if isinstance(value, list):
    return [decode_texts(name, item, max_bytes) for item in value]
  is_encoded = isinstance(value, dict) and value.keys() == {"b64"}
  if isinstance(value, dict) and not is_encoded:
    return {
      key: decode_texts(f"{key:.60} of {name}", item, max_bytes)
      for key, item in value.items()
    }
  if not isinstance(value, str) and not is_encoded:
    return value
  try:
    if is_encoded:
      value = base64.b64decode(value["b64"], validate=True).decode(
        errors="ignore"
      )
    num_bytes = len(value.encode())
  except (TypeError, ValueError) as error:
    raise ValueError(f"{name} is not Unicode or Base64: {error}") from error
  if num_bytes > max_bytes:
    raise ValueError(
      f"{name} has a text of {num_bytes} bytes, but this server's limit is "
      f"{max_bytes}; shorten it."
    )
  return value
