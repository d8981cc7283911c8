"""Models that another runtime computes: files of ONNX and LiteRT."""

import math
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import modeling, task_registry
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import errors, packages
from bert_tf.inference.ids_functions import IdsFunction
from bert_tf.model import model_size


class OnnxFunction(IdsFunction):
  """A function in a file of ONNX, for onnxruntime."""

  def __init__(
    self, path: str, config: modeling.BertConfig, num_threads: int = 0
  ) -> None:
    with packages.needs_extra("ONNX", extra="onnx"):
      import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads  # 0 means one per core.
    with errors.reading(path):
      self._session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
      )
    names = {"tensor(float)": tf.float32, "tensor(int32)": tf.int32}
    inputs, self.outputs = (
      {
        value.name: tf.TensorSpec(
          [size if isinstance(size, int) else None for size in value.shape],
          names[value.type],
          value.name,
        )
        for value in values
      }
      for values in (self._session.get_inputs(), self._session.get_outputs())
    )
    super().__init__(inputs, config)

  def _compute(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    names = [*self.outputs]
    return dict(zip(names, self._session.run(names, dict(arrays))))


class LiteRtFunction(IdsFunction):
  """A function in a file of LiteRT, which computes one batch at a time."""

  def __init__(
    self, path: str, config: modeling.BertConfig, num_threads: int = 0
  ) -> None:
    with packages.needs_extra("LiteRT", extra="litert"):
      from ai_edge_litert import interpreter
    with errors.reading(path):
      self._run = interpreter.Interpreter(
        path,
        num_threads=num_threads or None,  # None is LiteRT's choice.
      ).get_signature_runner()
    self._lock = threading.Lock()
    inputs, self.outputs = (
      {
        name: tf.TensorSpec(
          [None if size < 0 else size for size in value["shape_signature"]],
          tf.as_dtype(value["dtype"]),
          name,
        )
        for name, value in details.items()
      }
      for details in (
        self._run.get_input_details(),
        self._run.get_output_details(),
      )
    )
    super().__init__(inputs, config)

  def _compute(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    with self._lock:
      return self._run(**arrays)


def load_function(
  path: str, config: modeling.BertConfig, num_threads: int = 0
) -> IdsFunction:
  """Loads a file of ONNX or LiteRT, by its suffix.

  Args:
    path: the file.
    config: the sizes of the model.
    num_threads: CPU threads of a call; 0 for the runtime's choice.

  Raises:
    DamagedFileError: if the file cannot be read.
    ImportError: if the runtime is not installed.
  """
  kind = OnnxFunction if path.endswith(".onnx") else LiteRtFunction
  return kind(path, config, num_threads)


def count_parameters(files: ModelFolder) -> int:
  """Returns the number of parameters of the model that a file came from."""
  config, labels = files.config, files.labels
  sizes = {
    "D": config.hidden_size,
    "V": config.vocab_size,
    "C": labels.num_outputs if labels else 0,
  }
  model_class = task_registry.load(task_registry.find(files.task_name).model)
  heads = model_class.heads if model_class else ()
  shapes = [shape for head in heads for shape in head.shapes.values()]
  return sum(term.value for term in model_size.terms("encoder", config)) + sum(
    math.prod(sizes.get(size, size) for size in shape) for shape in shapes
  )
