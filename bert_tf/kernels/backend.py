"""Everything that depends on the backend of Keras.

Names and checks the backend without importing Keras. If the backend is not
installed, that import fails with an error that does not name KERAS_BACKEND.
The end of the module has operations that differ between TensorFlow and other
backends.
"""

import contextlib
import contextvars
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bert_tf.tensor import Tensor

# Each name is also that of the required package.
BACKENDS = ("tensorflow", "jax", "torch", "numpy", "openvino")

_is_gpu_program = contextvars.ContextVar("is_gpu_program", default=False)


def name() -> str:
  """Returns the backend that Keras uses, or will use once it is imported."""
  keras = sys.modules.get("keras")
  if keras and hasattr(keras, "__version__"):  # Its import is complete.
    return keras.backend.backend()
  return os.environ.get("KERAS_BACKEND") or _configured()


def _configured() -> str:
  """Returns the backend that Keras' configuration file (keras.json) names."""
  home = os.path.expanduser("~")
  folder = os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
  folder = os.environ.get("KERAS_HOME", folder)
  try:
    with open(os.path.join(os.path.expanduser(folder), "keras.json")) as file:
      return json.load(file)["backend"]
  except (OSError, ValueError, LookupError, TypeError):
    return "tensorflow"  # Keras' default.


def check_installed() -> None:
  """Raises an error if importing Keras would fail.

  Raises:
    ValueError: if Keras has no such backend.
    ImportError: if the backend's package is not installed.
  """
  backend = name()
  if backend not in BACKENDS:
    raise ValueError(
      f"the Keras backend is {backend!r}, which is not one of "
      f"{', '.join(BACKENDS)}; set KERAS_BACKEND=tensorflow."
    )
  if importlib.util.find_spec(backend) is None:
    raise ImportError(
      f"the Keras backend is {backend}, which is not installed; set "
      "KERAS_BACKEND=tensorflow."
    )


def check_tensorflow() -> None:
  """Raises ValueError if Keras does not run on TensorFlow."""
  backend = name()
  if backend != "tensorflow":
    raise ValueError(
      f"the Keras backend is {backend}, but training, evaluation, export and "
      "prediction from a checkpoint need TensorFlow; set "
      "KERAS_BACKEND=tensorflow."
    )


def is_tensorflow() -> bool:
  """Returns whether Keras runs on TensorFlow."""
  return name() == "tensorflow"


def matmul(
  a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
  """Returns the products of matrices, float [..., rows, columns].

  TensorFlow multiplies transposed matrices without copying them.
  """
  if is_tensorflow():
    import tensorflow as tf

    return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
  from keras import ops

  a = ops.swapaxes(a, -1, -2) if transpose_a else a
  b = ops.swapaxes(b, -1, -2) if transpose_b else b
  return ops.matmul(a, b)


def add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
  """Returns a table with rows added to some of its rows.

  Args:
    table: [V, ...].
    ids: int [n]. The rows of the table; some may occur more than once.
    rows: [n, ...].
  """
  if is_tensorflow():
    import tensorflow as tf

    return tf.tensor_scatter_nd_add(table, ids[:, None], rows)
  from keras import ops

  return table + ops.scatter(ids[:, None], rows, ops.shape(table))


def gradient(backward: Callable[[Tensor], Any]) -> Callable[..., Any]:
  """Returns the gradient function that `keras.ops.custom_gradient` expects.

  Keras passes the gradient of the output by position on some backends and as
  `upstream` on others.

  Args:
    backward: maps the gradient of the output to the gradients of the inputs.
  """

  def call(*args: Tensor, upstream: Tensor | None = None) -> Any:
    return backward(args[0] if upstream is None else upstream)

  return call


def after(tensor: Tensor) -> contextlib.AbstractContextManager:
  """Returns a scope whose operations run after `tensor`, in TensorFlow graphs.

  On other backends the scope has no effect.
  """
  if not is_tensorflow():
    return contextlib.nullcontext()
  import tensorflow as tf

  return tf.control_dependencies([tensor])


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
  """Returns whether the caller is within `gpu_program`."""
  return _is_gpu_program.get()


def computed_again(x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
  """Returns both tensors; XLA computes what depends on them again.

  XLA would merge the same operation of the forward and of the backward pass,
  and so keep its result in memory in between.

  Args:
    x: a tensor of the forward pass.
    gradient: the gradient whose computation comes before.
  """
  from tensorflow.compiler.tf2xla.ops import gen_xla_ops

  x, gradient = gen_xla_ops.xla_optimization_barrier([x, gradient])
  return x, gradient


def free_value(variable: Any) -> None:
  """Frees the memory of a Keras variable, which then has no value.

  Keras has no public way: `_value` is None for variables that are not
  initialized yet. Checked with Keras 3.15; a test fails if this changes.
  """
  variable._value = None
