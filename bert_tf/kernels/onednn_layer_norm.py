"""Layer norm in one operation of oneDNN, and the scope that asks for it."""

import contextlib
import contextvars
import functools
from collections.abc import Iterator

import keras

from bert_tf.tensor import Tensor

# oneDNN's, which TensorFlow has for a CPU, without a gradient. What its graphs
# are rewritten to is this too, but with gamma and beta that are constants, and
# with an epsilon of 1e-3 in place of theirs.
_OPERATION = "_MklLayerNorm"

_is_fused = contextvars.ContextVar("is_fused", default=False)


@contextlib.contextmanager
def fused() -> Iterator[None]:
  """A scope of functions that compute, on a CPU, and are not differentiated.

  Layer norm is one operation in what is traced in it, where TensorFlow has that
  operation; nor may what is traced be compiled by XLA or saved for other
  machines.
  """
  token = _is_fused.set(True)
  try:
    yield
  finally:
    _is_fused.reset(token)


def can_compute(inputs: Tensor) -> bool:
  """Returns whether a graph is traced in the scope, of what oneDNN takes."""
  if not _is_fused.get() or keras.backend.backend() != "tensorflow":
    return False
  import tensorflow as tf  # Other backends have no need of it.

  return (
    tf.is_symbolic_tensor(inputs)
    and inputs.dtype == tf.float32
    and inputs.shape.rank in (2, 3)
    and _has_operation()
  )


def compute(
  inputs: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> Tensor:
  """Returns the norm of float32 [rows, D] or [B, rows, D]."""
  import tensorflow as tf

  given = [tf.convert_to_tensor(tensor) for tensor in (inputs, gamma, beta)]
  attributes = {
    "T": tf.compat.v1.AttrValue(type=tf.float32.as_datatype_enum),
    "epsilon": tf.compat.v1.AttrValue(f=epsilon),
  }
  # TensorFlow has no function that makes it.
  graph = tf.compat.v1.get_default_graph()
  operation = graph.create_op(
    _OPERATION, given, [tf.float32], name="fused", attrs=attributes
  )
  return operation.outputs[0]


@functools.cache
def _has_operation() -> bool:
  """Returns whether this TensorFlow has the operation, and nothing but CPUs."""
  import tensorflow as tf
  from tensorflow.python.framework import kernels

  devices = {device.device_type for device in tf.config.list_logical_devices()}
  known = kernels.get_registered_kernels_for_op(_OPERATION).kernel
  return devices == {"CPU"} and any(k.device_type == "CPU" for k in known)
