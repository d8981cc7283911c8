"""The activations of BERT's layers, by their names in configs."""

import math
from collections.abc import Callable

import keras
import tensorflow as tf
from keras import ops

from bert_tf.model.kernels import backend
from bert_tf.model.tensor import Tensor

_SLOPE = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def gelu(x: Tensor) -> Tensor:
  """The tanh approximation of the Gaussian error linear unit.

  gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), as in the
  original release (Hendrycks and Gimpel 2016, arXiv 1606.08415).

  Automatic differentiation would keep a tensor for each operation: 0.7 GB more
  for a training step of BERT-Base on 8 x 128 word pieces. This gradient keeps x
  and the tanh. In 16 bits, both passes compute in float32: rounding after each
  operation takes longer than computing.
  """
  return _gelu(ops.convert_to_tensor(x))


@tf.custom_gradient
def _gelu(x: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
  dtype = x.dtype
  if keras.backend.standardize_dtype(dtype) in ("float16", "bfloat16"):
    if backend.in_gpu_program():
      return _gelu_on_gpu(x)
    x = ops.cast(x, "float32")
  # x * x * x, since a power is slower. TensorFlow fuses gelu with the product
  # before it only if it consists of exactly these operations.
  tanh = ops.tanh(_SLOPE * (x + _CUBIC * (x * x * x)))

  def backward(d_output: Tensor) -> Tensor:
    d_inner = _SLOPE + (3.0 * _SLOPE * _CUBIC) * (x * x)
    slope = 0.5 + 0.5 * tanh + 0.5 * x * (1.0 - tanh * tanh) * d_inner
    return d_output * ops.cast(slope, dtype)

  return ops.cast(0.5 * x * (1.0 + tanh), dtype), backward


def _gelu_on_gpu(x: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
  """`_gelu` for x of 16 bits, with a gradient that keeps only x.

  It computes the tanh again, as (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which
  takes fewer instructions on a GPU.
  """
  dtype = x.dtype

  def sigmoid(x: Tensor) -> Tensor:
    return ops.sigmoid(2.0 * _SLOPE * (x + _CUBIC * (x * x * x)))

  def backward(d_output: Tensor) -> Tensor:
    # Without the border, XLA would merge the sigmoids of both passes, and so
    # keep the result in memory in between.
    kept, d_output = backend.materialize(x, d_output)
    kept = ops.cast(kept, "float32")
    gate = sigmoid(kept)
    d_inner = 2.0 * _SLOPE + (6.0 * _SLOPE * _CUBIC) * (kept * kept)
    slope = gate + kept * gate * (1.0 - gate) * d_inner
    return d_output * ops.cast(slope, dtype)

  wide = ops.cast(x, "float32")
  output = ops.cast(wide * sigmoid(wide), dtype)
  return output, backward


def gelu_erf(x: Tensor) -> Tensor:
  """The exact Gaussian error linear unit, x * P(X <= x), X ~ N(0, 1).

  Models of other libraries use this form.
  """
  return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor] | None] = {
  "gelu": gelu,
  "gelu_erf": gelu_erf,
  "relu": ops.relu,
  "tanh": ops.tanh,
  "linear": None,
  "": None,
}


def get_activation(name: str) -> Callable[[Tensor], Tensor] | None:
  """Returns the activation for a name in a config; None for linear.

  Raises ValueError for an unknown name.
  """
  key = name.lower()
  if key not in _ACTIVATIONS:
    raise ValueError(
      f"unknown hidden_act {name!r}; use gelu, gelu_erf, relu, tanh or linear."
    )
  return _ACTIVATIONS[key]
