"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import keras
import numpy as np
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
  def __ge__(self, other: Any, /) -> Any: ...
  def __gt__(self, other: Any, /) -> Any: ...
  def __and__(self, other: Any, /) -> Any: ...
  def __invert__(self) -> Any: ...


# Of the hash "lowbias32" (C. Wellons, hash-prospector, public domain).
_SHIFTS = (16, 15, 16)
_FACTORS = (0x7FEB352D, 0x846CA68B)

# 2**32 over the golden ratio: multiples of it are spread evenly.
_GOLDEN = 0x9E3779B9


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
    """A scope whose seeds are `first`, int [2], + [0, 0], + [0, 1], ..."""
    self._first, self.num_drawn = first, 0
    try:
      yield
    finally:
      self._first = None

  def next(self, ordered: bool = True) -> Tensor:
    """Returns the next seed, int [n + 1]; [2] outside of `counted_from`."""
    if self._first is None:
      return super().next(ordered)
    count = ops.convert_to_tensor([self.num_drawn], self._first.dtype)
    self.num_drawn += 1
    return ops.concatenate([self._first, count])


def dropout(x: Tensor, rate: float, seeds: Seeds, training: bool) -> Tensor:
  """Zeroes a share of x and scales up the rest; x itself if not training.

  What is zeroed is a function of the seed and of the place in x, the same on
  every backend and device, compiled or not. The share, rate in [0, 1), is met
  to 2**-32.
  """
  if not training or rate == 0.0:
    return x
  keys = _keys(seeds.next())
  bits = ops.cast(ops.arange(ops.size(x)), "uint32") + keys[0]
  bits = _xor_shifted(bits, _SHIFTS[0]) * _uint32(_FACTORS[0])
  # Draws whose first keys are close would else be the same but for a shift.
  bits = ops.bitwise_xor(bits, keys[1])
  bits = _xor_shifted(bits, _SHIFTS[1]) * _uint32(_FACTORS[1])
  # The hash's last step would change the lower half of the bits alone.
  is_kept = ops.reshape(bits >= _uint32(round(rate * 2**32)), ops.shape(x))
  return x * (ops.cast(is_kept, x.dtype) * (1.0 / (1.0 - rate)))


def _keys(seed: Tensor) -> Tensor:
  """Returns two hashes of an int [n], uint32 [2]."""
  places = np.arange(1, 2 * seed.shape[0] + 1, dtype=np.uint32)
  places = ops.reshape(_uint32(places * np.uint32(_GOLDEN)), (2, -1))
  return _hash(ops.sum(_hash(ops.cast(seed, "uint32") + places), axis=1))


def _hash(x: Tensor) -> Tensor:
  """Returns a hash of each uint32."""
  for shift, factor in zip(_SHIFTS, _FACTORS):
    x = _xor_shifted(x, shift) * _uint32(factor)
  return _xor_shifted(x, _SHIFTS[-1])


def _xor_shifted(x: Tensor, shift: int) -> Tensor:
  return ops.bitwise_xor(x, ops.right_shift(x, _uint32(shift)))


def _uint32(value: Any) -> Tensor:
  return ops.convert_to_tensor(value, "uint32")
