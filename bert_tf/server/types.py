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
_Index = Annotated[int, pydantic.Field(strict=True, ge=0)]


class _Object(pydantic.BaseModel):
  """A JSON object, in which null means that a value is absent."""

  @pydantic.model_validator(mode="before")
  @classmethod
  def _drop_nulls(cls, value: Any) -> Any:
    if isinstance(value, dict):
      return {key: item for key, item in value.items() if item is not None}
    return value


class PredictRequest(_Object):
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
    if isinstance(self.inputs, dict):
      counts = {name: len(column) for name, column in self.inputs.items()}
      if len(set(counts.values())) > 1:
        raise ValueError(f"inputs differ in their numbers of rows: {counts}.")
    return self

  def rows(self) -> list[Any]:
    """Returns the rows."""
    if isinstance(self.inputs, dict):
      columns = self.inputs.values()
      return [dict(zip(self.inputs, row)) for row in zip(*columns)]
    return self.inputs or self.instances or []


class ClassifyRequest(_Object):
  """Texts to classify; `context` has fields that all examples share."""

  signature_name: str | None = None
  context: dict[str, Any] = {}
  examples: list[dict[str, Any]]


class AttentionRequest(_Object):
  """A text or a pair, a layer, and a head; without one the mean of all."""

  text: str
  text_b: str | None = None
  layer: _Index = 0
  head: _Index | None = None


class EmbeddingsRequest(_Object):
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


class _Row(_Object):
  model_config = pydantic.ConfigDict(extra="forbid")


def text_row(
  fields: Sequence[str], num_required: int, max_bytes: int
) -> type[pydantic.BaseModel]:
  """Returns the class of rows of texts, which have at most max_bytes."""

  def decode(value: Any) -> Any:
    if isinstance(value, dict) and isinstance(value.get("b64"), str):
      raw = base64.b64decode(value["b64"], validate=True)
      value = raw.decode(errors="ignore")
    if isinstance(value, str):
      check_length(value, max_bytes)
    return value

  text = Annotated[str, pydantic.BeforeValidator(decode)]
  texts = Annotated[list[text], pydantic.Field(min_length=1)]
  types = {name: texts if name == "choices" else text for name in fields}
  return _row_class(types, num_required)


def ids_row(
  fields: Sequence[str], max_length: int, has_choices: bool
) -> type[pydantic.BaseModel]:
  """Returns the class of rows of word-piece ids; of lists of them for choices.

  A sequence has 1 to max_length ids, and at most as many positions of masks.
  """
  types: dict[str, Any] = {}
  for name in fields:
    min_length = 0 if name == "masked_lm_positions" else 1
    length = pydantic.Field(min_length=min_length, max_length=max_length)
    ids = Annotated[list[_Id], length]
    choices = Annotated[list[ids], pydantic.Field(min_length=1)]
    types[name] = choices if has_choices else ids
  return _row_class(types, len(fields))


def _row_class(
  types: Mapping[str, Any], num_required: int
) -> type[pydantic.BaseModel]:
  fields: dict[str, Any] = {
    name: (each, ... if index < num_required else None)
    for index, (name, each) in enumerate(types.items())
  }
  return pydantic.create_model("Row", __base__=_Row, **fields)


def read_row(
  row_class: type[pydantic.BaseModel], index: int, row: Any
) -> dict[str, Any]:
  """Returns the values of a row by field; a single value is of the first field.

  Raises ValueError, with the row's index, if row_class does not accept them.
  """
  if not isinstance(row, dict) or row.keys() == {"b64"}:
    row = {next(iter(row_class.model_fields)): row}
  try:
    return row_class.model_validate(row).model_dump(exclude_unset=True)
  except pydantic.ValidationError as error:
    reasons = [
      ": ".join([".".join(map(str, each["loc"])), each["msg"]])
      for each in error.errors(include_url=False)[:3]
    ]
    raise ValueError(
      f"row {index}: {'; '.join(reasons)}. The fields of a row are "
      f"{', '.join(row_class.model_fields)}."
    ) from error


def check_length(text: str, max_bytes: int) -> None:
  """Raises ValueError if a text has more than max_bytes or is not Unicode."""
  num_bytes = len(text.encode())
  if num_bytes > max_bytes:
    raise ValueError(
      f"the text has {num_bytes} bytes, but this server's limit is "
      f"{max_bytes}; shorten it."
    )
