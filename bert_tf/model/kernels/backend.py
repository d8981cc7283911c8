"""The backend of Keras, and operations that differ between backends.

Names and checks the backend without importing Keras, which fails if the backend
is not installed, with an error that does not name KERAS_BACKEND.
"""

import contextlib
import contextvars
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bert_tf.model.tensor import Tensor

# Each name is also that of the required package.
BACKENDS = ("tensorflow", "jax", "torch", "numpy", "openvino")

_is_gpu_program = contextvars.ContextVar("is_gpu_program", default=False)


def name() -> str:
  """The backend that Keras uses, or will use by KERAS_BACKEND."""
  keras = sys.modules.get("keras")
  if keras and hasattr(keras, "__version__"):  # Its import is complete.
    return keras.backend.backend()
  return os.environ.get("KERAS_BACKEND") or "tensorflow"


def check_installed() -> None:
  """Raises ValueError or ImportError for an unknown or missing backend."""
  backend = name()
  if backend not in BACKENDS:
    raise ValueError(
      f"KERAS_BACKEND is {backend!r}, not one of {', '.join(BACKENDS)}."
    )
  if importlib.util.find_spec(backend) is None:
    raise ImportError(f"KERAS_BACKEND is {backend}, which is not installed.")


def check_tensorflow() -> None:
  """Raises ValueError if Keras does not run on TensorFlow."""
  if not is_tensorflow():
    raise ValueError(
      f"the Keras backend is {name()}, but this needs TensorFlow; set "
      "KERAS_BACKEND=tensorflow."
    )


def is_tensorflow() -> bool:
  """Whether Keras runs on TensorFlow."""
  return name() == "tensorflow"


def matmul(
  a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
  """Multiplies matrices, which TensorFlow need not transpose first."""
  if is_tensorflow():
    import tensorflow as tf

    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
  from keras import ops

  a = ops.swapaxes(a, -1, -2) if transpose_a else a
  b = ops.swapaxes(b, -1, -2) if transpose_b else b
  return ops.matmul(a, b)


def add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
  """Adds `rows`, [n, ...], to a table, [V, ...], at ids, int [n].

  Ids may repeat.
  """
  if is_tensorflow():
    import tensorflow as tf

    return tf.tensor_scatter_nd_add(table, ids[:, None], rows)
  from keras import ops

  return table + ops.scatter(ids[:, None], rows, ops.shape(table))


def take_rows(table: Tensor, ids: Tensor) -> Tensor:
  """Rows of a table, [V, ...], by ids, int [...].

  Keras' `take` would count negative ids from the end of the table.
  """
  if is_tensorflow():
    import tensorflow as tf

    return tf.gather(table, ids)
  from keras import ops

  return ops.take(table, ids, axis=0)


def gradient(backward: Callable[[Tensor], Any]) -> Callable[..., Any]:
  """The gradient function that `keras.ops.custom_gradient` expects.

  Keras passes the gradient of the output by position on some backends and as
  `upstream` on others. A profile shows the gradient's operations under the name
  of its module.
  """
  import keras

  def call(*args: Tensor, upstream: Tensor | None = None) -> Any:
    with keras.name_scope(backward.__module__.rpartition(".")[2]):
      return backward(args[0] if upstream is None else upstream)

  return call


def after(tensor: Tensor) -> contextlib.AbstractContextManager:
  """A scope whose operations run after `tensor`, in TensorFlow graphs.

  On other backends the scope has no effect.
  """
  if not is_tensorflow():
    return contextlib.nullcontext()
  import tensorflow as tf

  return tf.control_dependencies([tensor])


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
