"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import keras
from keras import ops


class Tensor(Protocol):
  """What the tensors of all backends of Keras have, and NumPy's arrays.

  Their packages come without types, so this is all that a type checker knows.
  """

  @property
  def shape(self) -> Any:
    """Sizes; None where one is not known, in a graph."""

  @property
  def dtype(self) -> Any:
    """Type of the elements."""

  def __getitem__(self, key: Any, /) -> Any: ...
  def __add__(self, other: Any, /) -> Any: ...
  def __radd__(self, other: Any, /) -> Any: ...
  def __sub__(self, other: Any, /) -> Any: ...
  def __rsub__(self, other: Any, /) -> Any: ...
  def __mul__(self, other: Any, /) -> Any: ...
  def __rmul__(self, other: Any, /) -> Any: ...
  def __truediv__(self, other: Any, /) -> Any: ...
  def __rtruediv__(self, other: Any, /) -> Any: ...
  def __neg__(self) -> Any: ...
  def __lt__(self, other: Any, /) -> Any: ...
  def __gt__(self, other: Any, /) -> Any: ...
  def __and__(self, other: Any, /) -> Any: ...
  def __invert__(self) -> Any: ...


class Seeds(keras.random.SeedGenerator):
  """A generator of a different seed for each call of dropout.

  Seeds are counted from a state, as every SeedGenerator does, or from the
  argument of `counted_from`, so that a training step changes no state.

  Attributes:
    num_drawn: number of seeds drawn since `counted_from` was entered.
  """

  def __init__(self, seed: int = 0) -> None:
    super().__init__(seed)
    self._first: Tensor | None = None
    self.num_drawn = 0

  @contextlib.contextmanager
  def counted_from(self, first: Tensor) -> Iterator[None]:
    """A scope whose seeds are `first` + [0, 0], + [0, 1], and so on.

    Args:
      first: int [2], of the dtype of Keras' seeds.
    """
    self._first, self.num_drawn = first, 0
    try:
      yield
    finally:
      self._first = None

  def next(self, ordered: bool = True) -> Tensor:
    """Returns the next seed, int [2]."""
    if self._first is None:
      return super().next(ordered)
    count = ops.convert_to_tensor([0, self.num_drawn], self.state.dtype)
    self.num_drawn += 1
    return self._first + count


def dropout(x: Tensor, rate: float, seeds: Seeds, training: bool) -> Tensor:
  """Zeroes a share of x and scales up the rest; x itself if not training."""
  if not training or rate == 0.0:
    return x
  return keras.random.dropout(x, rate, seed=seeds)
