"""Layer norm over the last axis, in inference on a CPU as one operation.

    output = (x - mean(x)) / sqrt(variance(x) + epsilon) * gamma + beta

TensorFlow computes this in a dozen operations, each of which passes over x. Its
private operation `_MklLayerNorm` passes over x once, has no gradient, and runs
on CPUs only. A test fails if TensorFlow changes the operation, which was last
checked in 2.20.

On a GPU in 16 bits the variance is mean(x^2) - mean(x)^2, which XLA computes in
the pass over x that computes the mean.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from keras import ops

from bert_tf.model.kernels import backend
from bert_tf.model.tensor import Tensor

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
    if backend.in_gpu_program() and self.compute_dtype != "float32":
      gamma, beta = (ops.convert_to_tensor(v) for v in (self.gamma, self.beta))
      return _normalize(inputs, gamma, beta, self.epsilon)
    if not (
      _is_fused.get()
      and tf.is_symbolic_tensor(inputs)
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


def _normalize(x: Tensor, gamma: Tensor, beta: Tensor, eps: float) -> Tensor:
  """Layer norm that passes over x twice, and twice for the gradient."""

  @tf.custom_gradient
  def forward(
    x: Tensor, gamma: Tensor, beta: Tensor
  ) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
    values = ops.cast(x, "float32")
    mean = ops.mean(values, axis=-1, keepdims=True)
    squares = ops.mean(ops.square(values), axis=-1, keepdims=True)
    # Rounding may give a variance of 0 a sign.
    variance = ops.maximum(squares - ops.square(mean), 0.0)
    scale = ops.rsqrt(variance + eps)
    normalized = (values - mean) * scale

    def backward(d_output: Tensor) -> tuple[Tensor, ...]:
      d_output = ops.cast(d_output, "float32")
      d_normalized = d_output * gamma
      # The parts that move mean and variance have no effect on the output.
      d_x = scale * (
        d_normalized
        - ops.mean(d_normalized, axis=-1, keepdims=True)
        - normalized * ops.mean(d_normalized * normalized, -1, keepdims=True)
      )
      rows = tuple(range(len(x.shape) - 1))
      d_gamma = ops.sum(d_output * normalized, axis=rows)
      return ops.cast(d_x, x.dtype), d_gamma, ops.sum(d_output, axis=rows)

    output = ops.cast(normalized * gamma + beta, x.dtype)
    return output, backward

  return forward(x, gamma, beta)


@functools.cache
def _has_operation() -> bool:
  """Whether oneDNN is on and all devices are CPUs."""
  from tensorflow.python.framework import kernels
  from tensorflow.python.util import _pywrap_util_port

  # The operation exists also if TF_ENABLE_ONEDNN_OPTS=0 turns oneDNN off.
  if not _pywrap_util_port.IsMklEnabled():
    return False
  devices = {device.device_type for device in tf.config.list_logical_devices()}
  registered = kernels.get_registered_kernels_for_op(_OPERATION).kernel
  return devices == {"CPU"} and any(k.device_type == "CPU" for k in registered)
