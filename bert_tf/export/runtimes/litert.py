"""Converts to LiteRT (formerly TensorFlow Lite), in float32 or int8.

TensorFlow has the converter, and ai-edge-litert the interpreter.
"""

import tensorflow as tf

from bert_tf.export import saved_models
from bert_tf.export.runtimes import ids_models
from bert_tf.export.runtimes.ids_models import Run
from bert_tf.files import packages

ENDING = ".tflite"


def check_is_installed() -> None:
  """Raises ImportError if a package is missing."""
  with packages.needs_extra("LiteRT", extra="litert"):
    from ai_edge_litert import interpreter  # noqa: F401


def write(model: ids_models.IdsModel, path: str, is_int8: bool) -> None:
  """Writes the model's function as a LiteRT file with dynamic shapes.

  `is_int8` quantizes matrices to int8, and their inputs at run time (dynamic
  range quantization). The rest is float32.
  """
  converter = tf.lite.TFLiteConverter.from_saved_model(
    model.folder, signature_keys=[saved_models.IDS]
  )
  if is_int8:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
  with open(path, "wb") as file:
    file.write(converter.convert())


def load(path: str, num_threads: int = 0) -> Run:
  """Loads a LiteRT file as a function from inputs to outputs by name.

  It runs on `num_threads` CPU threads; 0 leaves the choice to LiteRT.
  """
  from ai_edge_litert import interpreter

  runner = interpreter.Interpreter(
    path, num_threads=num_threads or None
  ).get_signature_runner()
  return lambda inputs: runner(**inputs)
