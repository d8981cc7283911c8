"""Converts to ONNX for onnxruntime, in float32 or int8."""

import logging
import os
import tempfile
from collections.abc import Mapping

import tensorflow as tf

from bert_tf.export.runtimes import ids_models
from bert_tf.export.runtimes.ids_models import Run
from bert_tf.files import packages

ENDING = ".onnx"

# ONNX 1.13 (2022), the newest version that tf2onnx 1.17 writes.
_OPSET = 18

# Names of the axes of inputs in the file.
_AXES_BY_RANK = {2: ("batch", "length"), 3: ("batch", "choices", "length")}
_AXES = {"masked_lm_positions": ("batch", "predictions")}


def check_is_installed() -> None:
  """Raises ImportError if a package is missing."""
  with packages.needs_extra("ONNX", extra="onnx"):
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import tf2onnx  # noqa: F401


def write(model: ids_models.IdsModel, path: str, is_int8: bool) -> None:
  """Writes the model's function as an ONNX file with dynamic shapes.

  `is_int8` quantizes matrices to int8, and their inputs at run time (dynamic
  quantization). The rest is float32.
  """
  import onnx
  import tf2onnx

  signature = model.input_signature
  names = [spec.name for spec in signature]

  @tf.function(input_signature=signature, autograph=False)
  def by_position(*values: tf.Tensor) -> Mapping[str, tf.Tensor]:
    return model.run.signature(**dict(zip(names, values)))

  # tf2onnx logs each step, and warns of differences that conversion.py checks.
  logging.getLogger("tf2onnx").setLevel(logging.ERROR)
  converted, _ = tf2onnx.convert.from_function(
    by_position, signature, opset=_OPSET
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


def load(path: str, num_threads: int = 0) -> Run:
  """Loads an ONNX file as a function from inputs to outputs by name.

  It runs on `num_threads` CPU threads; 0 means one per core.
  """
  import onnxruntime

  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = num_threads
  session = onnxruntime.InferenceSession(
    path, options, providers=["CPUExecutionProvider"]
  )
  names = [output.name for output in session.get_outputs()]
  return lambda inputs: dict(zip(names, session.run(names, dict(inputs))))
