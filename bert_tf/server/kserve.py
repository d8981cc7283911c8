"""Requests and responses of KServe's open inference protocol, version 2.

Implements https://github.com/kserve/open-inference-protocol and Triton's
extension for binary tensors. In a body, binary tensors follow the JSON object.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import bert_tf
from bert_tf.export import saved_models
from bert_tf.files import errors
from bert_tf.inference import loaded_model
from bert_tf.server import connections, rest_json, served
from bert_tf.server.config import ServerConfig

with errors.needs_extra("serving", extra="serve"):
  from aiohttp import web

# Header with the length of the JSON in a body with binary tensors.
HEADER_LENGTH = "Inference-Header-Content-Length"
PLATFORM = "tensorflow_savedmodel"

# Names of dtypes in the protocol.
DATATYPES = {
  tf.bool: "BOOL",
  tf.int8: "INT8",
  tf.int16: "INT16",
  tf.int32: "INT32",
  tf.int64: "INT64",
  tf.uint8: "UINT8",
  tf.uint16: "UINT16",
  tf.uint32: "UINT32",
  tf.uint64: "UINT64",
  tf.float16: "FP16",
  tf.bfloat16: "BF16",
  tf.float32: "FP32",
  tf.float64: "FP64",
  tf.string: "BYTES",
}


@dataclasses.dataclass(frozen=True)
class InferRequest:
  """A parsed request."""

  predict: rest_json.PredictRequest
  id: str | None
  # Requested outputs, in order: by name, whether to send the output in binary.
  outputs: Mapping[str, bool]


def server_metadata() -> dict[str, Any]:
  """Returns the JSON object that describes the server."""
  return {
    "name": "bert_tf",
    "version": bert_tf.__version__,
    "extensions": ["binary_tensor_data"],
  }


def model_metadata(model: served.ServedModel) -> dict[str, Any]:
  """Returns the JSON object that describes a model's default function."""
  function = model.functions[saved_models.DEFAULT]
  return {
    "name": model.name,
    "versions": [str(model.version)],
    "platform": PLATFORM,
    "inputs": _describe(function.inputs),
    "outputs": _describe(function.outputs),
  }


def parse(
  body: bytes,
  header_length: str | None,
  functions: rest_json.Functions,
  limits: ServerConfig,
) -> InferRequest:
  """Parses the body of a request.

  Args:
    body: JSON, and possibly binary tensors behind it.
    header_length: value of the header HEADER_LENGTH; None if absent.
    functions: the model's functions by signature name.
    limits: the limits of requests.

  Raises:
    ValueError: if the request does not match a function or exceeds a limit.
  """
  value, tensors = _split_body(body, header_length)
  parameters = _parameters(value, "the request")
  name = parameters.get("signature_name", saved_models.DEFAULT)
  function = rest_json.find_function(name, functions)
  request_id = value.get("id")
  if request_id is not None and not isinstance(request_id, str):
    raise ValueError(f"id is {request_id!r:.60}; it has to be a text.")
  inputs = _inputs(value, tensors, function, limits)
  predict = rest_json.PredictRequest(name, inputs, is_row_format=False)
  return InferRequest(predict, request_id, _outputs(value, function))


def _inputs(
  value: Mapping[str, Any],
  tensors: memoryview,
  function: loaded_model.Function,
  limits: ServerConfig,
) -> dict[str, np.ndarray]:
  """Returns the inputs of a function from JSON and the binary tensors."""
  arrays = {}
  for item in _named(value.get("inputs"), "inputs", function.inputs):
    data = None
    if "binary_data_size" in _parameters(item, f"input {item['name']}"):
      data, tensors = _cut(item, tensors)
    arrays[item["name"]] = _array(item, data, function, limits)
  if tensors:
    raise ValueError(
      f"the body has {len(tensors)} bytes more than the binary_data_size of "
      "its inputs."
    )
  for input_name in function.inputs:
    if input_name not in arrays:
      raise ValueError(f"the request lacks the input {input_name}.")
  inputs = {name: arrays[name] for name in function.inputs}
  rest_json.check_inputs(inputs, limits)
  return inputs


def respond(
  request: InferRequest,
  model: served.ServedModel,
  outputs: Mapping[str, np.ndarray],
) -> web.Response:
  """Returns the response with the requested outputs.

  `outputs` has all outputs of the function, by name.
  """
  specs = model.functions[request.predict.signature_name].outputs
  described, binary = [], []
  for name, is_binary in request.outputs.items():
    array = outputs[name]
    output = _describe({name: specs[name]})[0] | {"shape": list(array.shape)}
    if is_binary:
      binary.append(_to_binary(array))
      output["parameters"] = {"binary_data_size": len(binary[-1])}
    else:
      output["data"] = _to_json(array)
    described.append(output)
  answer: dict[str, Any] = {
    "model_name": model.name,
    "model_version": str(model.version),
  }
  if request.id is not None:
    answer["id"] = request.id
  response = connections.json_response({**answer, "outputs": described})
  if not binary:
    return response
  assert isinstance(response.body, bytes)
  return web.Response(
    body=b"".join([response.body, *binary]),
    content_type="application/octet-stream",
    headers={HEADER_LENGTH: str(len(response.body))},
  )


def _split_body(
  body: bytes, header_length: str | None
) -> tuple[dict[str, Any], memoryview]:
  """Returns the JSON object of a body and the bytes behind it."""
  length = len(body)
  if header_length is not None:
    if not header_length.isdecimal() or int(header_length) > length:
      raise ValueError(
        f"{HEADER_LENGTH} is {header_length:.40}; the body has {length} bytes."
      )
    length = int(header_length)
  return rest_json.parse(body[:length]), memoryview(body)[length:]


def _describe(specs: loaded_model.Specs) -> list[dict[str, Any]]:
  """Returns the name, datatype and shape of each tensor.

  Unknown sizes are -1. A shape of unknown rank is [-1].
  """
  return [
    {
      "name": name,
      "datatype": DATATYPES[spec.dtype],
      "shape": [-1]
      if spec.shape.rank is None
      else [-1 if size is None else size for size in spec.shape.as_list()],
    }
    for name, spec in specs.items()
  ]


def _parameters(value: Mapping[str, Any], owner: str) -> Mapping[str, Any]:
  """Returns the parameters of a JSON object; {} if it has none.

  `owner` names the JSON object in errors.
  """
  parameters = value.get("parameters")
  if parameters is None:
    return {}
  if not isinstance(parameters, dict):
    raise ValueError(f"parameters of {owner:.100} is not a JSON object.")
  return parameters


def _named(
  items: Any, key: str, specs: loaded_model.Specs
) -> Sequence[Mapping[str, Any]]:
  """Checks that `items` are objects with different names in `specs`.

  Returns `items`. `key` is the key of `items` in the request.
  """
  if not isinstance(items, list) or not items:
    raise ValueError(f"{key} has to be a list of tensors, at least one.")
  names = []
  for item in items:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or name not in specs:
      raise ValueError(
        f"{key} has a tensor of name {name!r:.100}; the function has "
        f"{errors.join_names(list(specs))}. The parameter signature_name "
        "chooses another function."
      )
    if name in names:
      raise ValueError(f"{key} has the tensor {name} twice; give it once.")
    names.append(name)
  return items


def _cut(
  item: Mapping[str, Any], tensors: memoryview
) -> tuple[memoryview, memoryview]:
  """Returns the bytes of an input's binary tensor, and the remaining bytes."""
  size = item["parameters"]["binary_data_size"]
  is_size = isinstance(size, int) and not isinstance(size, bool)
  if not is_size or not 0 <= size <= len(tensors) or "data" in item:
    raise ValueError(
      f"binary_data_size of input {item['name']} is {size!r:.40}, and "
      f"{len(tensors)} bytes follow; give `data`, or the bytes behind the JSON "
      f"with the header {HEADER_LENGTH}."
    )
  return tensors[:size], tensors[size:]


def _array(
  item: Mapping[str, Any],
  binary: memoryview | None,
  function: loaded_model.Function,
  limits: ServerConfig,
) -> np.ndarray:
  """Returns the array of an input; reads `data` if `binary` is None."""
  name = item["name"]
  spec = function.inputs[name]
  datatype, shape = item.get("datatype"), _parse_shape(item)
  if datatype != DATATYPES[spec.dtype]:
    raise ValueError(
      f"input {name} has the datatype {datatype!r:.40}; the function takes "
      f"{DATATYPES[spec.dtype]}."
    )
  if binary is None:
    leaves: list[Any] = []
    rest_json.append_leaves(item.get("data"), leaves)
  elif spec.dtype == tf.string:
    leaves = _split_texts(name, binary)
  else:
    leaves = _numbers(name, binary, spec.dtype)
  if len(leaves) != math.prod(shape):
    raise ValueError(
      f"input {name} has the shape {shape} and {len(leaves)} values."
    )
  return rest_json.to_array(name, leaves, tuple(shape), spec, limits)


def _parse_shape(item: Mapping[str, Any]) -> list[int]:
  shape: Any = item.get("shape")
  if isinstance(shape, list) and all(
    type(size) is int and 0 <= size < 1 << 31 for size in shape
  ):
    return shape
  raise ValueError(
    f"input {item['name']} has the shape {shape!r:.60}; give a list of sizes."
  )


def _numbers(name: str, binary: memoryview, dtype: tf.DType) -> list[Any]:
  """Returns the little-endian numbers of a binary tensor."""
  kind = np.dtype(dtype.as_numpy_dtype).newbyteorder("<")
  if len(binary) % kind.itemsize:
    raise ValueError(
      f"input {name} has {len(binary)} bytes; a {dtype.name} has "
      f"{kind.itemsize}."
    )
  return np.frombuffer(binary, kind).tolist()


def _split_texts(name: str, binary: memoryview) -> list[bytes]:
  """Returns the texts of a binary tensor.

  Each text follows its length in bytes, a little-endian uint32.
  """
  texts, first = [], 0
  while first < len(binary):
    start = first + 4
    first = start + int.from_bytes(binary[first:start], "little")
    if first > len(binary):
      raise ValueError(f"a text of input {name} is longer than its tensor.")
    texts.append(bytes(binary[start:first]))
  return texts


def _outputs(
  value: Mapping[str, Any], function: loaded_model.Function
) -> dict[str, bool]:
  """Returns whether to send each requested output in binary, by name.

  A request without `outputs` requests all outputs of the function.
  """
  default = _parameters(value, "the request").get("binary_data_output")
  if value.get("outputs") is None:
    return dict.fromkeys(function.outputs, default is True)
  requested = {}
  for item in _named(value["outputs"], "outputs", function.outputs):
    parameters = _parameters(item, f"output {item['name']}")
    requested[item["name"]] = parameters.get("binary_data", default) is True
  return requested


def _to_binary(array: np.ndarray) -> bytes:
  """Returns a binary tensor, in the format of `_numbers` or `_split_texts`."""
  if array.dtype != object:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()
  return b"".join(
    len(text).to_bytes(4, "little") + text for text in array.ravel()
  )


def _to_json(array: np.ndarray) -> list[Any]:
  """Returns the values as a flat list in row-major order; texts as str."""
  values = array.ravel().tolist()
  if array.dtype != object:
    return values
  return [text.decode("utf-8", errors="replace") for text in values]
