"""Requests and responses of TensorFlow Serving's REST API.

They follow https://www.tensorflow.org/tfx/serving/api_rest, except that the
answers to rows are those of `bert_tf.load(...).predict`. Error messages start
as in TensorFlow Serving and add details.
"""

import base64
import binascii
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from bert_tf.export import saved_models
from bert_tf.files import errors
from bert_tf.inference import loaded_model
from bert_tf.inference import outputs as outputs_lib
from bert_tf.server.config import ServerConfig

Functions = Mapping[str, loaded_model.Function]

# Outputs of question answering that are null if there is no answer.
_ANSWERS = ("answer", "nbest_text")
# Outputs with this suffix contain bytes and are encoded in Base64.
_BYTES_SUFFIX = "_bytes"
# Inputs of pre-trained models.
_IDS, _POSITIONS = "input_ids", "masked_lm_positions"


@dataclasses.dataclass(frozen=True)
class PredictRequest:
  """A parsed `:predict` request."""

  signature_name: str
  # Arrays with the same number of rows; texts are bytes.
  inputs: Mapping[str, np.ndarray]
  is_row_format: bool  # Whether the request has `instances`, not `inputs`.

  @property
  def num_rows(self) -> int:
    """Number of rows, at least 1."""
    return len(next(iter(self.inputs.values())))

  @property
  def lengths(self) -> np.ndarray:
    """Total bytes of the texts of each row, int [num_rows]."""
    lengths = np.zeros(self.num_rows, int)
    for array in self.inputs.values():
      if array.dtype == object:
        sizes = np.vectorize(len, otypes=[int])(array)
        lengths += sizes.reshape(len(array), -1).sum(axis=1)
    return lengths


def parse(body: bytes) -> dict[str, Any]:
  """Parses the body of a request; raises ValueError if not a JSON object."""
  try:
    value = json.loads(body.decode("utf-8"))
  except UnicodeDecodeError as error:
    raise ValueError(
      "JSON Parse error: the request is not UTF-8: byte "
      f"0x{body[error.start]:02x} at offset: {error.start}"
    ) from error
  except RecursionError:
    raise ValueError("JSON Parse error: lists are nested too deeply.") from None
  except ValueError as error:
    raise ValueError(f"JSON Parse error: {error}") from error
  if not isinstance(value, dict):
    raise ValueError(
      f"JSON Value: {_shorten(value)} is not a JSON object with the keys of "
      "the request."
    )
  return value


def predict_request(
  value: Mapping[str, Any], functions: Functions, limits: ServerConfig
) -> PredictRequest:
  """Parses the JSON object of a `:predict` request.

  Raises:
    ValueError: if it does not match the model's functions or exceeds a limit.
  """
  name = value.get("signature_name", saved_models.DEFAULT)
  if not isinstance(name, str):
    raise ValueError("'signature_name' key must be a string value.")
  if name not in functions:
    raise ValueError(
      f'Serving signature name: "{name:.100}" not found in signature def; the '
      f"model has {', '.join(sorted(functions))}."
    )
  specs = functions[name].inputs
  is_row_format = "instances" in value
  if is_row_format and "inputs" in value:
    raise ValueError(
      "Not formatted correctly: the request has both 'instances' and 'inputs'; "
      "give only one of them."
    )
  if is_row_format:
    columns = _rows_to_columns(value["instances"], specs, limits)
  elif "inputs" in value:
    columns = _columns(value["inputs"], specs)
  else:
    raise ValueError("Missing 'inputs' or 'instances' key.")
  inputs = {
    key: _array(key, columns[key], spec, limits) for key, spec in specs.items()
  }
  counts = {key: len(array) for key, array in inputs.items()}
  if len(set(counts.values())) > 1:
    raise ValueError(f"inputs have different numbers of rows: {counts}.")
  _check_num_rows(next(iter(counts.values())), limits)
  if _POSITIONS in inputs and _IDS in inputs:
    count, length = inputs[_POSITIONS].shape[1], inputs[_IDS].shape[1]
    if count > length:
      raise ValueError(
        f"a row has {count} {_POSITIONS}, but only {length} {_IDS}; give each "
        "position once."
      )
  return PredictRequest(name, inputs, is_row_format)


def predict_response(
  request: PredictRequest, outputs: Mapping[str, np.ndarray]
) -> dict[str, Any]:
  """Returns the JSON object of a response, in the format of the request.

  Rows get the answers of `bert_tf.load(...).predict`, columns the outputs of
  the model as TensorFlow Serving returns them.
  """
  columns = {name: _value(name, array) for name, array in outputs.items()}
  if request.is_row_format:
    rows = outputs_lib.answers(columns)
    is_unnamed = len(columns) == 1 and rows[0].keys() == columns.keys()
    return {"predictions": columns.popitem()[1] if is_unnamed else rows}
  if _ANSWERS[1] in columns:
    columns |= {
      name: _replace_empty(columns[name])
      for name in _ANSWERS
      if name in columns
    }
  [first, *others] = columns.values()
  return {"outputs": columns if others else first}


def metadata(name: str, version: int, functions: Functions) -> dict[str, Any]:
  """Returns the JSON object that describes the signatures of a model."""
  definitions = {
    signature: {
      "inputs": _tensor_infos(function.inputs),
      "outputs": _tensor_infos(function.outputs),
      "method_name": tf.saved_model.PREDICT_METHOD_NAME,
    }
    for signature, function in functions.items()
  }
  return {
    "model_spec": {"name": name, "signature_name": "", "version": str(version)},
    "metadata": {"signature_def": {"signature_def": definitions}},
  }


def _check_num_rows(count: int, limits: ServerConfig) -> None:
  if not count:
    raise ValueError("the request has no rows; give at least one.")
  if count > limits.max_rows:
    raise ValueError(
      f"the request has {count} rows; the limit of this server is "
      f"{limits.max_rows}: send several requests."
    )


def _rows_to_columns(
  rows: Any, specs: Mapping[str, tf.TensorSpec], limits: ServerConfig
) -> dict[str, list]:
  if not isinstance(rows, list):
    raise ValueError(
      f"Expecting 'instances' value to be a list, but got: {_shorten(rows)}"
    )
  _check_num_rows(len(rows), limits)
  columns: dict[str, list] = {name: [] for name in specs}
  for index, row in enumerate(rows):
    try:
      values = _columns(row, specs)
    except ValueError as error:
      raise ValueError(
        f"Failed to process element: {index} of 'instances' list. Error: "
        f"{error}"
      ) from error
    for name, value in values.items():
      columns[name].append(value)
  return columns


def _columns(value: Any, specs: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
  if not isinstance(value, dict) or _is_base64(value):
    if len(specs) > 1:
      raise ValueError(
        f"{_shorten(value)} is not an object of {', '.join(specs)}."
      )
    return {name: value for name in specs}
  for name in sorted(value.keys() - specs.keys()):
    raise ValueError(
      f"there is no input {name!r:.100}; the signature takes "
      f"{', '.join(specs)}."
    )
  for name in sorted(specs.keys() - value.keys()):
    raise ValueError(f"JSON object: does not have named input: {name}")
  return value


def _array(
  name: str, value: Any, spec: tf.TensorSpec, limits: ServerConfig
) -> np.ndarray:
  leaves: list[Any] = []
  shape = _flatten(name, value, leaves)
  if not spec.shape.is_compatible_with(shape):
    raise ValueError(
      f"input {name} has the shape {spec.shape}; the request has {shape}."
    )
  convert = _to_bytes if spec.dtype == tf.string else _to_number
  converted: list[Any] = [convert(name, leaf, spec.dtype) for leaf in leaves]
  if spec.dtype == tf.string:
    for text in converted:
      if len(text) > limits.max_text_length:
        raise ValueError(
          f"input {name} has a text of {len(text)} bytes; the limit of this "
          f"server is {limits.max_text_length}: shorten it."
        )
  dtype = spec.dtype.as_numpy_dtype
  return np.array(converted, dtype=dtype).reshape(shape)


def _flatten(name: str, value: Any, leaves: list) -> tuple[int, ...]:
  if not isinstance(value, list):
    leaves.append(value)
    return ()
  shapes = [_flatten(name, item, leaves) for item in value]
  for shape in shapes:
    if shape != shapes[0]:
      raise ValueError(
        f"rows of input {name} differ in size: Expecting tensor size: "
        f"{shapes[0]} but got: {shape}"
      )
  return (len(value), *(shapes[0] if shapes else ()))


def _to_bytes(name: str, leaf: Any, dtype: tf.DType) -> bytes:
  if isinstance(leaf, str):
    try:
      return leaf.encode("utf-8")
    except UnicodeEncodeError as error:
      raise ValueError(
        f"input {name} is not a Unicode text: surrogate at {error.start}."
      ) from error
  if not _is_base64(leaf):
    raise _wrong_type(name, leaf, dtype)
  try:
    return base64.b64decode(leaf["b64"], validate=True)
  except (binascii.Error, ValueError) as error:
    raise ValueError(f"input {name} is not Base64: {error}") from error


def _to_number(name: str, leaf: Any, dtype: tf.DType) -> int | float:
  kinds = (int, float) if dtype.is_floating else (int,)
  # In Python a bool is an int.
  if not isinstance(leaf, kinds) or isinstance(leaf, bool) != dtype.is_bool:
    raise _wrong_type(name, leaf, dtype)
  if dtype.is_integer and not dtype.min <= leaf <= dtype.max:
    raise ValueError(
      f"input {name}: {_shorten(leaf)} is out of range of {dtype.name}."
    )
  try:
    return float(leaf) if dtype.is_floating else leaf
  except OverflowError as error:
    raise ValueError(f"input {name}: {error}") from error


def _wrong_type(name: str, leaf: Any, dtype: tf.DType) -> ValueError:
  return ValueError(
    f"JSON Value: {_shorten(leaf)} of input {name} is not of expected type: "
    f"{dtype.name}"
  )


def _is_base64(value: Any) -> bool:
  return (
    isinstance(value, dict)
    and value.keys() == {"b64"}
    and isinstance(value["b64"], str)
  )


def _shorten(value: Any) -> str:
  return errors.shorten(json.dumps(value), 63)


def _value(name: str, array: np.ndarray) -> Any:
  def convert(value: Any) -> Any:
    if isinstance(value, list):
      return [convert(item) for item in value]
    if name.endswith(_BYTES_SUFFIX):
      return {"b64": base64.b64encode(value).decode()}
    return value.decode("utf-8", errors="replace")

  values = array.tolist()
  return convert(values) if array.dtype == object else values


def _replace_empty(value: Any) -> Any:
  if isinstance(value, list):
    return [_replace_empty(item) for item in value]
  return value or None


def _tensor_infos(specs: Mapping[str, tf.TensorSpec]) -> dict[str, Any]:
  infos = {}
  for name, spec in specs.items():
    sizes = [str(-1 if n is None else n) for n in spec.shape.as_list()]
    infos[name] = {
      "dtype": types_pb2.DataType.Name(spec.dtype.as_datatype_enum),
      "tensor_shape": {
        "dim": [{"size": size, "name": ""} for size in sizes],
        "unknown_rank": False,
      },
      "name": name,
    }
  return infos
