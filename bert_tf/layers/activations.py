"""The activations of BERT's layers, by their names in configs."""

import math
from collections.abc import Callable

from keras import ops

from bert_tf.kernels import gelu as gelu_kernel
from bert_tf.tensor import Tensor


def gelu(x: Tensor) -> Tensor:
  """Returns the tanh approximation of the Gaussian error linear unit.

  As in the original release (Hendrycks and Gimpel 2016, arXiv 1606.08415).
  """
  return gelu_kernel.Gelu()(x)


def gelu_erf(x: Tensor) -> Tensor:
  """Returns the exact Gaussian error linear unit, x * P(X <= x), X ~ N(0, 1).

  Models of other libraries use this form.
  """
  return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def get_activation(
  name: str | Callable[[Tensor], Tensor] | None,
) -> Callable[[Tensor], Tensor] | None:
  """Returns the activation for a name in a config; None for linear.

  Returns a function unchanged, as the original does.

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
