"""The JSON of requests, from which OpenAPI follows.

It follows https://www.tensorflow.org/tfx/serving/api_rest, except that answers
to texts are those of `bert_tf.load(...).predict`,
https://platform.openai.com/docs/api-reference/embeddings, and
https://docs.cohere.com/reference/rerank. Error messages start
as in TensorFlow Serving and add details.
"""

import base64
from typing import Annotated, Any, Literal

import pydantic

# OpenAI's limit of texts in a request.
MAX_TEXTS = 2048

# A word-piece id, or another int32 of a row.
Id = Annotated[int, pydantic.Field(strict=True, ge=0, lt=1 << 31)]
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


class ExamplesRequest(_Object):
  """Texts to classify; `context` has fields that all examples share."""

  signature_name: str | None = None
  context: dict[str, Any] = {}
  examples: list[dict[str, Any]]

  def rows(self) -> list[Any]:
    """Returns the rows."""
    return [{**self.context, **example} for example in self.examples]


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


class RerankRequest(_Object):
  """A query and the texts to sort, in the form of Jina and Cohere."""

  model: str
  query: str
  documents: Annotated[list[str], pydantic.Field(min_length=1)]
  top_n: Annotated[int, pydantic.Field(strict=True, ge=1)] | None = None


def decode_texts(value: Any, max_bytes: int) -> Any:
  """Returns a row's value, with texts for {"b64": ...} and without nulls.

  Raises ValueError for a text that is longer than max_bytes, or not Unicode.
  """
  if isinstance(value, dict):
    if not isinstance(value.get("b64"), str):
      items = ((k, v) for k, v in value.items() if v is not None)
      return {key: decode_texts(item, max_bytes) for key, item in items}
    content = base64.b64decode(value["b64"], validate=True)
    value = content.decode(errors="ignore")
  if isinstance(value, list):
    return [decode_texts(item, max_bytes) for item in value]
  if isinstance(value, str) and (num_bytes := len(value.encode())) > max_bytes:
    raise ValueError(
      f"the text has {num_bytes} bytes, but this server's limit is "
      f"{max_bytes}; shorten it."
    )
  return value
