"""The backend of Keras, and the programs that XLA compiles for GPUs.

Imports neither Keras nor TensorFlow, so that `check_tensorflow` comes first.
"""

import contextlib
import contextvars
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bert_tf.model.tensor import Tensor

# Modules of Keras that import matplotlib, OpenCV and scikit-learn if these are
# installed, which takes as long as half of the import of TensorFlow. Nothing
# else in Keras uses them.
_LAZY_MODULES = (
  "keras.src.visualization",
  "keras.visualization",
  "keras.wrappers",
)

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


class KerasFinder(importlib.abc.MetaPathFinder):
  """Shortens the import of Keras and checks its backend before.

  Some modules of Keras are loaded when their first attribute is used. Modules
  that are imported later or by others are left to Python.

  Args:
    hidden: packages that Keras uses if they are installed, but should not find.
  """

  def __init__(self, hidden: Sequence[str] = ()) -> None:
    self.hidden = hidden

  def find_spec(
    self, fullname: str, path: Sequence[str] | None, target: object = None
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns the spec of a lazy module; raises an error for a hidden one."""
    if fullname == "keras":
      check_tensorflow()
    keras = sys.modules.get("keras")
    if not keras or hasattr(keras, "__version__"):  # Its import is complete.
      return None
    if fullname in self.hidden:
      raise ModuleNotFoundError(f"Keras need not import {fullname}.")
    if fullname.replace("_tf_keras.keras.", "") not in _LAZY_MODULES:
      return None
    spec = importlib.machinery.PathFinder.find_spec(fullname, path)
    if spec and spec.loader:
      spec.loader = importlib.util.LazyLoader(spec.loader)
    return spec


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
