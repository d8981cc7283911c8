"""Random bits that are a function of seeds and of the place alone.

They are the same on every backend and device, compiled or not.
"""

from typing import Any

import numpy as np
from keras import ops

from bert_tf.tensor import Tensor

# Of the hash "lowbias32" (C. Wellons, hash-prospector, public domain).
_SHIFTS = (16, 15, 16)
_FACTORS = (0x7FEB352D, 0x846CA68B)

# 2**32 over the golden ratio: multiples of it are spread evenly.
_GOLDEN = 0x9E3779B9


def bits(seeds: Tensor, count: Tensor | int, first: Tensor | int = 0) -> Tensor:
  """Returns random bits, uint32 [..., count], for each row of seeds.

  The lower 16 of them are less mixed than the upper ones.

  Args:
    seeds: int [..., n], counted modulo 2**32.
    count: number of draws of each row.
    first: number of draws of each row that are left out before.
  """
  found = keys(seeds)  # [..., 2]
  start = found[..., :1] + ops.cast(first, "uint32")
  return bits_at((start, found[..., 1:]), ops.cast(ops.arange(count), "uint32"))


def bits_at(keys: tuple[Tensor, Tensor], numbers: Tensor) -> Tensor:
  """Returns the draws of these numbers, uint32 of any shape.

  `keys`, uint32, are the two of a row of seeds as `keys` returns them.
  """
  found = numbers + keys[0]
  found = _xor_shifted(found, _SHIFTS[0]) * _uint32(_FACTORS[0])
  # Draws whose first keys are close would else be the same but for a shift.
  found = ops.bitwise_xor(found, keys[1])
  # The hash's last step would change the lower half of the bits alone.
  return _xor_shifted(found, _SHIFTS[1]) * _uint32(_FACTORS[1])


def keys(seeds: Tensor) -> Tensor:
  """Returns two hashes of each row of int [..., n], uint32 [..., 2]."""
  places = np.arange(1, 2 * seeds.shape[-1] + 1, dtype=np.uint32)
  places = ops.reshape(_uint32(places * np.uint32(_GOLDEN)), (2, -1))
  words = ops.expand_dims(ops.cast(seeds, "uint32"), -2) + places
  return _hash(ops.sum(_hash(words), axis=-1))


def _hash(x: Tensor) -> Tensor:
  """Returns a hash of each uint32."""
  for shift, factor in zip(_SHIFTS, _FACTORS):
    x = _xor_shifted(x, shift) * _uint32(factor)
  return _xor_shifted(x, _SHIFTS[-1])


def _xor_shifted(x: Tensor, shift: int) -> Tensor:
  return ops.bitwise_xor(x, ops.right_shift(x, _uint32(shift)))


def _uint32(value: Any) -> Tensor:
  return ops.convert_to_tensor(value, "uint32")
