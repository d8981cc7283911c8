"""A model with its name, signatures and description, as the server uses it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2

from bert_tf.export import saved_models
from bert_tf.inference import ids_rows, predictor
from bert_tf.inference import inputs as inputs_lib
from bert_tf.server import config as server_config
from bert_tf.server import limits, types
from bert_tf.tasks import base
from bert_tf.tasks.classification import glue

# Config keys reported as the size of a model.
_SIZES = (
  *("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"),
)
_NO_TEXTS = "its folder lacks vocab.txt or run.json. Export it again."
# Assumed maximum length and vocabulary of a model without bert_config.json.
_NUM_POSITIONS, _VOCAB_SIZE = 512, 30522
# Maximum logits of masks in a batch: 256 MiB of float32.
_MAX_MASK_LOGITS = 1 << 26
# Decimal places of attention weights, to keep responses short.
_DECIMALS = 4
_SAMPLE_ID = base.ModelInput([0] * 4, [1] * 4, [0] * 4)


class Signature:
  """A form of a model's rows; batching.Batcher computes them.

  Attributes:
    name: names of the model and the signature.
    fields: names of a row's values.
    num_required: number of these that a row must have.
    takes_texts: whether the values are texts, not word-piece ids.
  """

  def __init__(
    self, model: "ServedModel", name: str, reader: ids_rows.RowReader
  ) -> None:
    self.name = (model.name, name)
    self.fields = reader.fields
    self.num_required = reader.num_required
    self.takes_texts = name != saved_models.IDS
    self.max_size = model.max_size
    self._predictor = model.predictor
    self._config = model.config
    self._reader = reader
    sizes = model.predictor.bert_config
    self._max_length = sizes.max_position_embeddings if sizes else None
    vocab_size = sizes.vocab_size if sizes else _VOCAB_SIZE
    # The logits of masks are limited as word pieces are.
    self._mask_size = vocab_size * model.max_size / _MAX_MASK_LOGITS

  def prepare(self, rows: Sequence[Any]) -> list[base.Inputs]:
    """Returns the rows with their inputs.

    Raises HttpError if the model cannot read them, or for too many inputs.
    """
    try:
      prepared = [self._prepare(i, row) for i, row in enumerate(rows)]
    except (ValueError, RecursionError) as error:
      raise limits.HttpError(400, str(error)) from error
    num_inputs = sum(len(row.sequences) for row in prepared)
    if num_inputs > max(self._config.max_windows, len(rows)):
      raise limits.HttpError(
        413,
        f"the request has {num_inputs} windows of long texts, or choices, but "
        f"this server's limit is {self._config.max_windows}; split it.",
      )
    return prepared

  def _prepare(self, index: int, row: Any) -> base.Inputs:
    if self.takes_texts:
      if not isinstance(row, str | dict):
        names = ", ".join(self.fields)
        raise ValueError(f"row {index} must be a text or an object of {names}.")
      max_bytes = self._config.max_text_length
      row = types.decode_texts(f"row {index}", row, max_bytes)
      needed = self.fields, self.num_required
      texts = inputs_lib.texts_by_name(index, row, *needed)
      return self._predictor.preprocess(self._reader, index, texts)
    specs = self._predictor.functions[saved_models.IDS].inputs
    rank = specs["input_ids"].shape.rank
    columns = types.read_ids(index, row, self.fields, rank)
    [prepared] = self._reader.preprocess([columns])
    for each in prepared.sequences:
      length, num_masks = len(each.input_ids), len(each.masked_lm_positions)
      if self._max_length and length > self._max_length:
        raise ValueError(
          f"row {index} has {length} input_ids, but the model takes at most "
          f"{self._max_length}."
        )
      if num_masks > length:
        raise ValueError(
          f"row {index} has {num_masks} masked_lm_positions, but only {length} "
          "input_ids; give each position once."
        )
    return prepared

  def size(self, value: base.ModelInput) -> int:
    """The word pieces of an input, as they are padded."""
    masks = int(len(value.masked_lm_positions) * self._mask_size)
    return (self._reader.width or len(value.input_ids)) + masks

  def compute(self, values: Sequence[base.ModelInput]) -> list[base.Outputs]:
    """Returns the outputs of the model for a batch."""
    try:
      return self._predictor.compute(values, self._reader)
    except ValueError as error:
      raise limits.HttpError(400, str(error)) from error
    except tf.errors.ResourceExhaustedError as error:
      raise MemoryError(str(error)) from error

  def answer(self, row: base.Inputs, outputs: Sequence[base.Outputs]) -> Any:
    """The answer of a row as JSON."""
    return self._reader.postprocess(row, outputs)


class ServedModel:
  """A model with a name in paths and a description.

  Attributes:
    max_size: maximum padded word pieces of a batch.
    signatures: by name; the first is that of requests without a name.
  """

  def __init__(
    self,
    name: str,
    model: predictor.Predictor,
    config: server_config.ServerConfig,
  ) -> None:
    self.name = name
    self.config = config
    self.version: int = model.version
    self.predictor = model
    sizes = model.bert_config
    length = sizes.max_position_embeddings if sizes else None
    for task in model.tasks.values():
      length = task.max_seq_length
    self.max_size = config.max_batch_size * (length or _NUM_POSITIONS)
    readers: dict[str, ids_rows.RowReader] = dict(model.tasks)
    readers[saved_models.IDS] = model.ids_reader
    self.signatures = {n: Signature(self, n, r) for n, r in readers.items()}
    if not model.tasks:
      logging.warning("%s takes only ids: %s", name, _NO_TEXTS)

  def signature(self, name: str | None) -> Signature:
    """The signature with a name; HttpError if there is none."""
    default, *_ = self.signatures
    if name in (None, saved_models.DEFAULT, f"{saved_models.TEXT}_pair"):
      name = default
    if name not in self.signatures:
      advice = "." if self.predictor.tasks else f"; {_NO_TEXTS}"
      raise limits.HttpError(
        400,
        f'Serving signature name: "{name:.100}" not found in signature def; '
        f"the model has {', '.join(self.signatures)}{advice}",
      )
    return self.signatures[name]

  def warm_up(self) -> None:
    """Calls each function with made-up inputs."""
    for signature in self.signatures.values():
      signature.compute([_SAMPLE_ID])
    model = self.predictor
    if model.tasks and saved_models.ATTENTION in model.functions:
      model.attention("a")

  def attention(self, body: types.AttentionRequest) -> dict[str, Any]:
    """Returns the word pieces, and the weights of a head or of their mean.

    Raises HttpError for a text that is too long and for what the model lacks.
    """
    try:
      for text in (body.text, body.text_b):
        types.decode_texts("the request", text, self.config.max_text_length)
      attention = self.predictor.attention(body.text, body.text_b)
    except ValueError as error:
      raise limits.HttpError(400, str(error)) from error
    num_layers, num_heads = attention.probabilities.shape[:2]  # [L, N, F, T]
    if body.layer >= num_layers or (body.head or 0) >= num_heads:
      raise limits.HttpError(
        400,
        f"the model has only {num_layers} layers and {num_heads} heads.",
      )
    heads = attention.probabilities[body.layer]
    shown = heads.mean(axis=0) if body.head is None else heads[body.head]
    return {
      "tokens": list(attention.tokens),
      "layer": body.layer,
      "head": body.head,
      "num_layers": num_layers,
      "num_heads": num_heads,
      "attention": np.round(shown.astype(np.float64), _DECIMALS).tolist(),
    }

  def vector_width(self) -> int | None:
    """The size of the vectors of texts; None if there are none."""
    info, sizes = self.predictor.info, self.predictor.bert_config
    is_encoder = info is not None and info.task == "encoder"
    return sizes.hidden_size if is_encoder and sizes else None

  def about(self) -> dict[str, Any]:
    """The content of run.json and the sizes, as far as known."""
    info, sizes = self.predictor.info, self.predictor.bert_config
    known: dict[str, Any] = {"name": self.name, "version": str(self.version)}
    if info:
      known |= info.to_dict()
      task_name = info.labels.task_name if info.labels else ""
      known["label_names"] = glue.LABEL_NAMES.get(task_name)
    if sizes:
      known["size"] = {name: getattr(sizes, name) for name in _SIZES}
      known["size"]["num_parameters"] = self.predictor.num_parameters
    return known

  def metadata(self) -> dict[str, Any]:
    """Returns the signatures as TensorFlow Serving describes them.

    The answers to texts, which depend on the task, are not described.
    """
    described: dict[str, Any] = {}
    for name, signature in self.signatures.items():
      if signature.takes_texts:
        inputs = {
          field: tf.TensorSpec([None] * (1 + (field == "choices")), tf.string)
          for field in signature.fields
        }
        needed = signature.fields[: signature.num_required]
        described[name] = _definition({n: inputs[n] for n in needed}, {})
        if len(inputs) > len(needed):
          described[f"{name}_pair"] = _definition(inputs, {})
    for name, function in self.predictor.functions.items():
      described[name] = _definition(function.inputs, function.outputs)
    return {
      "model_spec": {"name": self.name, "version": str(self.version)},
      "metadata": {"signature_def": {"signature_def": described}},
    }


def _definition(
  inputs: Mapping[str, tf.TensorSpec], outputs: Mapping[str, tf.TensorSpec]
) -> dict[str, Any]:
  def infos(specs: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
    return {
      name: meta_graph_pb2.TensorInfo(
        name=name,
        dtype=spec.dtype.as_datatype_enum,
        tensor_shape=spec.shape.as_proto(),
      )
      for name, spec in specs.items()
    }

  definition = meta_graph_pb2.SignatureDef(
    inputs=infos(inputs),
    outputs=infos(outputs),
    method_name=tf.saved_model.PREDICT_METHOD_NAME,
  )
  return json_format.MessageToDict(definition, preserving_proto_field_name=True)
