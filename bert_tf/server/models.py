"""A model with its name, signatures and description, as the server uses it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pydantic
import tensorflow as tf
from absl import logging
from google.protobuf import json_format
from tensorflow.core.framework import types_pb2

from bert_tf.inference import ids_functions
from bert_tf.inference.ids_functions import RowReader
from bert_tf.inference.predictor import Predictor
from bert_tf.inference.rows import map_rows, texts_by_name
from bert_tf.server import types
from bert_tf.server.config import ServerConfig
from bert_tf.server.limits import HttpError
from bert_tf.tasks import base
from bert_tf.tasks.classification import glue

_NO_TEXTS = "its folder lacks vocab.txt. Export it again."
# Maximum logits of masks in a batch: 256 MiB of float32.
_MAX_MASK_LOGITS = 1 << 26


class Signature:
  """A form of a model's rows: the JSON of a row to inputs, outputs to JSON.

  Attributes:
    name: names of the model and the signature.
    reader: preprocesses rows and postprocesses outputs.
    takes_texts: whether the values of rows are texts, not word-piece ids.
    max_size: maximum padded word pieces of a batch.
  """

  def __init__(
    self,
    name: tuple[str, str],
    reader: RowReader,
    predictor: Predictor,
    config: ServerConfig,
  ) -> None:
    self.name, self.reader = name, reader
    self.takes_texts = name[1] != ids_functions.IDS
    self.postprocess = reader.postprocess
    self._predictor, self._config = predictor, config
    sizes = predictor.bert_config
    max_length = sizes.max_position_embeddings
    if predictor.tasks:
      max_length = predictor.task().max_seq_length
    self.max_size = config.max_batch_size * max_length
    # The logits of masks are limited as word pieces are.
    self._mask_size = sizes.vocab_size * self.max_size / _MAX_MASK_LOGITS
    limit = pydantic.Field(max_length=sizes.max_position_embeddings)
    ids: Any = Annotated[list[types.Id], limit]
    if predictor.ids_reader.has_choices:
      ids = list[ids]
    self._ids = pydantic.TypeAdapter(dict[str, ids])

  def _preprocess_row(self, row: Any) -> base.Inputs:
    reader = self.reader
    if not self.takes_texts:
      try:
        values = self._ids.validate_python(row)
      except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}") from error
      return self._predictor.preprocess(reader, values)
    row = types.decode_texts(row, self._config.max_text_length)
    if not isinstance(row, str | dict):
      raise ValueError(f"{row!r:.60} is neither a text nor an object.")
    values = texts_by_name(row, reader.fields, reader.num_required)
    return self._predictor.preprocess(reader, values)

  def preprocess(self, rows: Sequence[Any]) -> list[base.Inputs]:
    """Returns the inputs of each row.

    Raises HttpError if the model cannot read them, or for too many inputs.
    """
    try:
      inputs = [*map_rows(self._preprocess_row, rows)]
    except ValueError as error:
      raise HttpError(400, str(error)) from error
    num_inputs = sum(len(each.sequences) for each in inputs)
    if num_inputs > max(self._config.max_windows, len(rows)):
      raise HttpError(
        413,
        f"the request has {num_inputs} windows of long texts, or choices, but "
        f"this server's limit is {self._config.max_windows}; split it.",
      )
    return inputs

  def size(self, value: base.ModelInput) -> int:
    """Returns the word pieces of a sequence, as they are padded."""
    masks = int(len(value.masked_lm_positions) * self._mask_size)
    return (self.reader.width or len(value.input_ids)) + masks

  def compute(self, values: Sequence[base.ModelInput]) -> list[base.Outputs]:
    """Returns the outputs of the model for a batch."""
    try:
      outputs = self._predictor.compute(values, self.reader)
    except ValueError as error:
      raise HttpError(400, str(error)) from error
    except tf.errors.ResourceExhaustedError as error:
      raise MemoryError(str(error)) from error
    for output in outputs:
      _check_finite(output)
    return outputs


class ServedModel:
  """A model with a name in paths and a description.

  Attributes:
    signatures: by name; the first is that of requests without a name.
  """

  def __init__(
    self, name: str, predictor: Predictor, config: ServerConfig
  ) -> None:
    self.name, self.predictor, self.config = name, predictor, config
    self.version: int = predictor.version
    readers: dict[str, RowReader] = dict(predictor.tasks)
    readers[ids_functions.IDS] = predictor.ids_reader
    self.signatures = {
      each: Signature((name, each), reader, predictor, config)
      for each, reader in readers.items()
    }
    if not predictor.tasks:
      logging.warning("%s takes only ids: %s", name, _NO_TEXTS)

  def signature(self, name: str | None, rows: Sequence[Any] = ()) -> Signature:
    """Returns the signature with a name; HttpError if there is none.

    Without a name, it is the one of texts, unless the first row has ids.
    """
    if name in (None, ids_functions.DEFAULT, f"{ids_functions.TEXT}_pair"):
      has_ids = any(isinstance(r, dict) and "input_ids" in r for r in rows[:1])
      name = ids_functions.IDS if has_ids else next(iter(self.signatures))
    if name not in self.signatures:
      advice = "." if self.predictor.tasks else f"; {_NO_TEXTS}"
      raise HttpError(
        400,
        f'Serving signature name: "{name:.100}" not found in signature def; '
        f"the model has {', '.join(self.signatures)}{advice}",
      )
    return self.signatures[name]

  def warm_up(self) -> None:
    """Traces each function, and calls it with made-up inputs."""
    for function in self.predictor.functions.values():
      function.prepare()
    for signature in self.signatures.values():
      signature.compute([base.ModelInput([0] * 4, [1] * 4, [0] * 4)])
    model = self.predictor
    if model.tasks and ids_functions.ATTENTION in model.functions:
      model.attention("a")

  def attention(self, body: types.AttentionRequest) -> dict[str, Any]:
    """Returns the word pieces, and the weights of a head or of their mean.

    Raises HttpError for a text that is too long and for what the model lacks.
    """
    try:
      types.decode_texts(body.model_dump(), self.config.max_text_length)
      attention = self.predictor.attention(body.text, body.text_b)
    except ValueError as error:
      raise HttpError(400, str(error)) from error
    _check_finite({"attention": attention.probabilities})
    num_layers, num_heads = attention.probabilities.shape[:2]  # [L, N, F, T]
    if body.layer >= num_layers or (body.head or 0) >= num_heads:
      raise HttpError(
        400, f"the model has only {num_layers} layers and {num_heads} heads."
      )
    heads = attention.probabilities[body.layer]
    shown = heads.mean(axis=0) if body.head is None else heads[body.head]
    return {
      "tokens": list(attention.tokens),
      "layer": body.layer,
      "head": body.head,
      "num_layers": num_layers,
      "num_heads": num_heads,
      "attention": np.round(shown.astype(np.float64), 4).tolist(),
    }

  def about(self) -> dict[str, Any]:
    """Returns the content of run.json and the sizes."""
    info, sizes = self.predictor.info, self.predictor.bert_config
    task_name = info.labels.task_name if info.labels else ""
    return {
      "name": self.name,
      "version": str(self.version),
      **info.to_dict(),
      "label_names": glue.LABEL_NAMES.get(task_name),
      "size": {
        "num_hidden_layers": sizes.num_hidden_layers,
        "hidden_size": sizes.hidden_size,
        "num_attention_heads": sizes.num_attention_heads,
        "vocab_size": sizes.vocab_size,
        "num_parameters": self.predictor.num_parameters,
      },
    }

  def metadata(self) -> dict[str, Any]:
    """Returns the signatures as TensorFlow Serving describes them.

    The answers to texts, which depend on the task, are not described.
    """
    described: dict[str, Any] = {}
    for name, signature in self.signatures.items():
      if signature.takes_texts:
        inputs = {
          field: tf.TensorSpec([None] * (1 + (field == "choices")), tf.string)
          for field in signature.reader.fields
        }
        needed = signature.reader.fields[: signature.reader.num_required]
        described[name] = _definition({n: inputs[n] for n in needed}, {})
        if len(inputs) > len(needed):
          described[f"{name}_pair"] = _definition(inputs, {})
    for name, function in self.predictor.functions.items():
      described[name] = _definition(function.inputs, function.outputs)
    return {
      "model_spec": {"name": self.name, "version": str(self.version)},
      "metadata": {"signature_def": {"signature_def": described}},
    }


def _check_finite(outputs: Mapping[str, np.ndarray]) -> None:
  """Raises HttpError 500 for NaN and infinity, for which JSON has no form."""
  for name, values in outputs.items():
    if not np.isfinite(values).all():
      raise HttpError(
        500,
        f"the model's {name} are not finite numbers; its weights are damaged, "
        "or its training has diverged.",
      )


def _definition(
  inputs: Mapping[str, tf.TensorSpec], outputs: Mapping[str, tf.TensorSpec]
) -> dict[str, Any]:
  inputs, outputs = (
    {
      name: {
        "name": name,
        "dtype": types_pb2.DataType.Name(spec.dtype.as_datatype_enum),
        "tensor_shape": json_format.MessageToDict(spec.shape.as_proto()),
      }
      for name, spec in specs.items()
    }
    for specs in (inputs, outputs)
  )
  method_name = tf.saved_model.PREDICT_METHOD_NAME
  return {"inputs": inputs, "outputs": outputs, "method_name": method_name}
