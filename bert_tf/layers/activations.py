"""The activations of BERT's layers, by the names that configs give them."""

import math
from collections.abc import Callable

from keras import ops

from bert_tf.layers.tensor import Tensor


def gelu(x: Tensor) -> Tensor:
  """Returns the tanh approximation of the Gaussian error linear unit."""
  # Multiplied out: a power is slower, and Keras' gelu has one.
  inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
  return 0.5 * x * (1.0 + ops.tanh(inner))


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
