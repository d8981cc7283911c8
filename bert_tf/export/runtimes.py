"""Converts the function on ids of a SavedModel to ONNX or LiteRT.

Neither runtime has TensorFlow's operations on strings, so bert_tf turns texts
into ids for them.
"""

import logging
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import checkpoints
from bert_tf.files import packages
from bert_tf.inference import ids_functions
from bert_tf.inference.ids_functions import IdsFunction
from bert_tf.model import model_inputs
from bert_tf.model.model_config import BertConfig
from bert_tf.tasks import base

# The file of each runtime.
FILES = dict(zip(("onnx", "litert"), checkpoints.RUNTIME_FILES))


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
  saved_model: str, folder: str, config: BertConfig, runtime: str, is_int8: bool
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
  loaded = tf.saved_model.load(saved_model)
  function = ids_functions.of_signature(loaded, config)
  path = os.path.join(folder, FILES[runtime])
  if runtime == "onnx":
    _write_onnx(loaded.signatures[ids_functions.IDS], path, is_int8)
  else:
    converter = tf.lite.TFLiteConverter.from_saved_model(
      saved_model, signature_keys=[ids_functions.IDS]
    )
    if is_int8:
      converter.optimizations = [tf.lite.Optimize.DEFAULT]
    with open(path, "wb") as file:
      file.write(converter.convert())
  converted = ids_functions.load_runtime_file(path, config)
  largest: dict[str, float] = {}
  for sizes in ((1, 16), (3, 128)):  # Of a batch and of a text.
    inputs = sample(function, config, *sizes)
    want, got = function(inputs), converted(inputs)
    shapes = [{n: v.shape for n, v in sorted(x.items())} for x in (want, got)]
    if shapes[0] != shapes[1]:
      raise ValueError(
        f"the SavedModel returns {shapes[0]}, but its conversion {shapes[1]}."
      )
    for name, value in sorted(want.items()):
      difference = np.abs(value.astype(np.float64) - got[name]).max()
      # Unlike max(), np.maximum keeps NaN.
      largest[name] = float(np.maximum(largest.get(name, 0.0), difference))
  # Float32 outputs, which have a scale of about 1, differ by 5e-6 with 6 layers
  # and by less than 1e-4 with 12 to 24. Int8 outputs may differ by any number.
  limit = np.finfo(np.float32).max if is_int8 else 1e-4
  if wrong := [f"{n} by {d:.1e}" for n, d in largest.items() if not d <= limit]:
    raise ValueError(
      f"the outputs of {runtime} differ from those of TensorFlow in "
      f"{', '.join(wrong)}, more than {limit:.0e}; try another version of the "
      "converter."
    )
  return largest


def sample(
  function: IdsFunction, config: BertConfig, batch_size: int, length: int
) -> dict[str, np.ndarray]:
  """Returns inputs [batch_size, at most length], equal in each call."""
  rng = np.random.default_rng(0)
  length = min(length, config.max_position_embeddings)
  sizes, inputs = model_inputs.count_values(config, length), {}
  for name, spec in sorted(function.inputs.items()):
    num_choices = [3] * (len(spec.shape) - 2)  # None without choices.
    shape = (batch_size, *num_choices, length)
    if name == "input_mask":
      lengths = rng.integers(1, length + 1, (*shape[:-1], 1))
      lengths[0] = length
      values = (np.arange(length) < lengths).astype(np.int64)
    else:
      values = rng.integers(sizes[name], size=shape)
    inputs[name] = values.astype(np.int32)
  return inputs


def _write_onnx(function: Any, path: str, is_int8: bool) -> None:
  """Writes the function as an ONNX file with dynamic shapes."""
  import onnx
  import tf2onnx
  from onnxruntime import quantization

  inputs = function.structured_input_signature[1]
  names = [name for name in base.ModelInput._fields if name in inputs]

  def call(*values: tf.Tensor) -> Mapping[str, Any]:
    return function(**dict(zip(names, values)))

  signature = [inputs[name] for name in names]
  by_position = tf.function(call, signature, autograph=False)
  # The packages log each step, and warn of differences that `convert` checks.
  logging.disable(logging.WARNING)
  try:
    # ONNX 1.13 (2022), the newest version that tf2onnx 1.17 writes.
    model, _ = tf2onnx.convert.from_function(by_position, signature, opset=18)
    onnx.save(model, path)
    if not is_int8:
      return
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
  finally:
    logging.disable(logging.NOTSET)
