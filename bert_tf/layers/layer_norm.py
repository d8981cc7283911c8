"""Layer norm over the last axis, in inference on a CPU as one operation.

    output = (x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta

TensorFlow computes this in a dozen operations, each of which passes over x. Its
private operation `_MklLayerNorm` passes over x once, has no gradient, and runs
on CPUs only. A test fails if TensorFlow changes the operation, which was last
checked in 2.20.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator

import keras

from bert_tf.kernels import backend
from bert_tf.tensor import Tensor

_OPERATION = "_MklLayerNorm"

_is_fused = contextvars.ContextVar("is_fused", default=False)


@contextlib.contextmanager
def fused() -> Iterator[None]:
  """Within this scope, traced functions use the operation if it is available.

  The functions must run on a CPU and must not be differentiated, compiled by
  XLA, or saved for other machines.
  """
  token = _is_fused.set(True)
  try:
    yield
  finally:
    _is_fused.reset(token)


class LayerNorm(keras.layers.LayerNormalization):
  """Keras' layer norm; one operation within `fused`."""

  def call(self, inputs: Tensor) -> Tensor:
    """A tensor of the shape and dtype of inputs."""
    if not (_is_fused.get() and backend.is_tensorflow()):
      return super().call(inputs)
    import tensorflow as tf

    if not (
      tf.is_symbolic_tensor(inputs)
      and inputs.dtype == tf.float32
      and inputs.shape.rank in (2, 3)
      and _has_operation()
    ):
      return super().call(inputs)
    tensors = map(tf.convert_to_tensor, (inputs, self.gamma, self.beta))
    attributes = {
      "T": tf.compat.v1.AttrValue(type=tf.float32.as_datatype_enum),
      "epsilon": tf.compat.v1.AttrValue(f=self.epsilon),
    }
    # No function of TensorFlow makes this operation.
    graph = tf.compat.v1.get_default_graph()
    operation = graph.create_op(
      _OPERATION, [*tensors], [tf.float32], name="fused", attrs=attributes
    )
    return operation.outputs[0]


@functools.cache
def _has_operation() -> bool:
  """Whether oneDNN is on and all devices are CPUs."""
  import tensorflow as tf
  from tensorflow.python.framework import kernels
  from tensorflow.python.util import _pywrap_util_port

  # The operation exists also if TF_ENABLE_ONEDNN_OPTS=0 turns oneDNN off.
  if not _pywrap_util_port.IsMklEnabled():
    return False
  devices = {device.device_type for device in tf.config.list_logical_devices()}
  registered = kernels.get_registered_kernels_for_op(_OPERATION).kernel
  return devices == {"CPU"} and any(k.device_type == "CPU" for k in registered)
