"""The activations of BERT's layers, by the names that configs give them."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.tensor import Tensor

_SLOPE = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715


def gelu(x: Tensor) -> Tensor:
  """Returns the tanh approximation of the Gaussian error linear unit."""
  return _Gelu()(x)


class _Gelu(keras.Operation):
  """The unit, of tensors and of those that Keras' functional models name."""

  def call(self, x: Tensor) -> Tensor:
    """Returns a tensor of the shape and dtype of x."""
    return _gelu(ops.convert_to_tensor(x))

  def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the shape and dtype of x."""
    return keras.KerasTensor(x.shape, x.dtype)


@ops.custom_gradient
def _gelu(x: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
  """Returns the unit and its gradient, computed in float32 at least.

  A gradient made of that of each operation holds 0.7 GB more for a training
  step of BERT-Base on 8 x 128 word pieces. In 16 bits each operation would
  round, which takes longer than to compute.
  """
  dtype = x.dtype
  if _is_short(dtype):
    x = ops.cast(x, "float32")
  # Multiplied out: a power is slower, and Keras' gelu has one. TensorFlow
  # knows it in these operations alone, as a part of the product before.
  tanh = ops.tanh(_SLOPE * (x + _CUBIC * (x * x * x)))

  def gradient(*args: Any, upstream: Tensor | None = None) -> Tensor:
    # One of the two, by the backend of Keras.
    upstream = args[0] if upstream is None else upstream
    inner = _SLOPE + (3.0 * _SLOPE * _CUBIC) * (x * x)
    slope = 0.5 + 0.5 * tanh + 0.5 * x * (1.0 - tanh * tanh) * inner
    return upstream * ops.cast(slope, dtype)

  return ops.cast(0.5 * x * (1.0 + tanh), dtype), gradient


def _is_short(dtype: Any) -> bool:
  return keras.backend.standardize_dtype(dtype) in ("float16", "bfloat16")


def gelu_erf(x: Tensor) -> Tensor:
  """Returns the exact Gaussian error linear unit."""
  return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def get_activation(
  name: str | Callable[[Tensor], Tensor] | None,
) -> Callable[[Tensor], Tensor] | None:
  """Returns the activation of that name; None for linear.

  What is no name is returned as it is, as in the original.

  Raises:
    ValueError: if the name is unknown.
  """
  if callable(name):
    return name
  known = {
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": None,
    "": None,
    None: None,
  }
  key = name.lower() if name else name
  if key not in known:
    raise ValueError(
      f"hidden_act {name!r} is not known; use gelu, gelu_erf, relu, tanh or "
      "linear."
    )
  return known[key]
