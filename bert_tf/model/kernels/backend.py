"""The backend of Keras, and the programs that XLA compiles for GPUs.

Imports neither Keras nor TensorFlow, so that `check_tensorflow` comes first.
"""

import contextlib
import contextvars
import os
import sys
from collections.abc import Iterator
from typing import Any

from bert_tf.model.tensor import Tensor

_is_gpu_program = contextvars.ContextVar("is_gpu_program", default=False)


def check_tensorflow() -> None:
  """Raises ValueError if Keras does not run on TensorFlow."""
  name = os.environ.get("KERAS_BACKEND") or "tensorflow"
  keras = sys.modules.get("keras")
  if keras and hasattr(keras, "__version__"):  # Its import is complete.
    name = keras.backend.backend()
  if name != "tensorflow":
    raise ValueError(
      f"Keras' backend is {name!r}, but bert_tf needs TensorFlow. Set the "
      "environment variable KERAS_BACKEND=tensorflow."
    )


def materialize(*tensors: Tensor) -> list[Tensor]:
  """The tensors, computed as they are: XLA changes nothing across this border.

  Only within `gpu_program`.
  """
  from tensorflow.compiler.tf2xla.ops import gen_xla_ops

  return gen_xla_ops.xla_optimization_barrier(list(tensors))


@contextlib.contextmanager
def gpu_program() -> Iterator[None]:
  """Within this scope, kernels take the form that is fastest on a GPU.

  The functions that are traced here must be compiled by XLA for NVIDIA GPUs.
  """
  token = _is_gpu_program.set(True)
  try:
    yield
  finally:
    _is_gpu_program.reset(token)


def in_gpu_program() -> bool:
  """Whether the caller is within `gpu_program`."""
  return _is_gpu_program.get()


def free_value(variable: Any) -> None:
  """Frees the memory of a Keras variable, which then has no value.

  Keras has no public way. Checked with 3.15; a test fails if this changes.
  """
  variable._value = None
