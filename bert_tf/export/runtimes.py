"""Converts the function on ids of a SavedModel to ONNX or LiteRT.

Neither runtime has TensorFlow's operations on strings, so bert_tf turns texts
into ids for them.
"""

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.files import packages
from bert_tf.inference import ids_functions, runtimes
from bert_tf.inference.ids_functions import IdsFunction

# The file of each runtime.
FILES = dict(zip(("onnx", "litert"), checkpoints.RUNTIME_FILES))

# ONNX 1.13 (2022), the newest version that tf2onnx 1.17 writes.
_OPSET = 18

# Names of the axes of inputs in an ONNX file.
_AXES_BY_RANK = {2: ("batch", "length"), 3: ("batch", "choices", "length")}
_AXES = {"masked_lm_positions": ("batch", "predictions")}

# Allowed difference of float32 outputs, which have a scale of about 1. With 6
# layers they differ by 5e-6, with 12 to 24 layers by less than 1e-4.
_TOLERANCE = 1e-4

# Batch sizes and lengths of the check; lengths are cut to the model's maximum.
_CHECKED_SIZES = ((1, 16), (3, 128))

# Number of choices of a random multiple-choice input.
_NUM_CHOICES = 3


def check_installed(runtime: str) -> None:
  """Raises ImportError if a package that a conversion needs is missing."""
  if runtime == "onnx":
    with packages.needs_extra("ONNX", extra="onnx"):
      import onnx  # noqa: F401
      import onnxruntime  # noqa: F401
      import tf2onnx  # noqa: F401
  else:
    with packages.needs_extra("LiteRT", extra="litert"):
      from ai_edge_litert import interpreter  # noqa: F401


def convert(
  saved_model: str,
  folder: str,
  config: modeling.BertConfig,
  runtime: str,
  is_int8: bool,
) -> dict[str, float]:
  """Writes the file of a runtime into a folder and checks its outputs.

  Args:
    saved_model: the folder of the SavedModel.
    folder: where the file gets its name of FILES.
    config: the sizes of the model.
    runtime: "onnx" or "litert".
    is_int8: whether to store matrices as int8, and to quantize their inputs
      when they are multiplied (dynamic quantization). The rest is float32.

  Returns:
    The largest absolute difference of each output from the SavedModel, for
    random ids of two batch sizes and lengths.

  Raises:
    ValueError: if the SavedModel cannot be converted, or the outputs differ too
      much.
  """
  function = ids_functions.load_functions(saved_model)[0][ids_functions.IDS]
  path = os.path.join(folder, FILES[runtime])
  if runtime == "onnx":
    _write_onnx(function, path, is_int8)
  else:
    _write_litert(saved_model, path, is_int8)
  samples = [sample(function, config, *sizes) for sizes in _CHECKED_SIZES]
  converted = runtimes.load_function(path, config)
  largest = find_differences(function, converted, samples)
  # The differences of int8 outputs may have any finite size.
  limit = np.finfo(np.float32).max if is_int8 else _TOLERANCE
  if wrong := [f"{n} by {d:.1e}" for n, d in largest.items() if not d <= limit]:
    raise ValueError(
      f"the outputs of {runtime} differ from those of TensorFlow in "
      f"{', '.join(wrong)}, more than {limit:.0e}; try another version of the "
      "converter."
    )
  return largest


def find_differences(
  expected: IdsFunction,
  converted: IdsFunction,
  samples: Sequence[Mapping[str, np.ndarray]],
) -> dict[str, float]:
  """Returns the largest absolute difference of each output by name.

  Raises ValueError if outputs or their shapes are not the same.
  """
  largest: dict[str, float] = {}
  for inputs in samples:
    want, got = expected(inputs), converted(inputs)
    shapes = [{n: v.shape for n, v in sorted(x.items())} for x in (want, got)]
    if shapes[0] != shapes[1]:
      raise ValueError(
        f"the SavedModel returns {shapes[0]}, but its conversion {shapes[1]}."
      )
    for name, value in want.items():
      difference = np.abs(value.astype(np.float64) - got[name]).max()
      # Unlike max(), np.maximum keeps NaN.
      largest[name] = np.maximum(largest.get(name, 0.0), difference)
  return {name: float(value) for name, value in sorted(largest.items())}


def sample(
  function: IdsFunction,
  config: modeling.BertConfig,
  batch_size: int,
  length: int,
) -> dict[str, np.ndarray]:
  """Returns inputs [batch_size, at most length], equal in each call."""
  rng = np.random.default_rng(0)
  length = min(length, config.max_position_embeddings)
  limits = {
    "input_ids": config.vocab_size,
    "segment_ids": config.type_vocab_size,
  }
  inputs = {}
  for name, spec in sorted(function.inputs.items()):
    shape = (batch_size, *[_NUM_CHOICES] * (len(spec.shape) - 2), length)
    if name == "input_mask":
      lengths = rng.integers(1, length + 1, (*shape[:-1], 1))
      lengths[0] = length
      values = (np.arange(length) < lengths).astype(np.int64)
    else:  # Other inputs, such as masked_lm_positions, are below the length.
      values = rng.integers(limits.get(name, length), size=shape)
    inputs[name] = values.astype(np.int32)
  return inputs


def _write_onnx(
  function: ids_functions.SignatureFunction, path: str, is_int8: bool
) -> None:
  """Writes the function as an ONNX file with dynamic shapes."""
  import onnx
  import tf2onnx

  first = ids_functions.ID_NAMES
  names = (*first, *sorted(function.inputs.keys() - {*first}))
  specs = [function.inputs[name] for name in names]

  @tf.function(
    input_signature=[
      tf.TensorSpec(spec.shape, spec.dtype, name)
      for name, spec in zip(names, specs)
    ],
    autograph=False,
  )
  def by_position(*values: tf.Tensor) -> Mapping[str, tf.Tensor]:
    return function.signature(**dict(zip(names, values)))

  # tf2onnx logs each step, and warns of differences that `convert` checks.
  logging.getLogger("tf2onnx").setLevel(logging.ERROR)
  converted, _ = tf2onnx.convert.from_function(
    by_position, by_position.input_signature, opset=_OPSET
  )
  for value in converted.graph.input:
    dimensions = value.type.tensor_type.shape.dim
    axes = _AXES.get(value.name) or _AXES_BY_RANK[len(dimensions)]
    for dimension, axis in zip(dimensions, axes):
      dimension.dim_param = axis
  onnx.save(converted, path)
  if is_int8:
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
      prepared = os.path.join(folder, "prepared.onnx")
      # Shape inference only; onnxruntime optimizes when it loads the file.
      quantization.quant_pre_process(
        path, prepared, skip_optimization=True, skip_symbolic_shape=True
      )
      quantization.quantize_dynamic(
        prepared,
        path,
        per_channel=True,
        # 7 bits: sums of 8-bit products overflow on x86 without VNNI.
        reduce_range=True,
        weight_type=quantization.QuantType.QInt8,
      )


def _write_litert(saved_model: str, path: str, is_int8: bool) -> None:
  """Writes the function IDS as a LiteRT file with dynamic shapes."""
  converter = tf.lite.TFLiteConverter.from_saved_model(
    saved_model, signature_keys=[ids_functions.IDS]
  )
  if is_int8:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
  with open(path, "wb") as file:
    file.write(converter.convert())
