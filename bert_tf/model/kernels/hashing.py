"""Random bits as a function of seeds and of an index i, and dropout masks.

    bits[i] = mix(hash_1(seeds) + i, hash_2(seeds))       uint32
    mask[i] = bits[i] >= rate * 2**32

These bits are the same on all backends, devices and compilers, and each can be
computed without the ones before it. XLA fuses the few integer operations into
the loop that uses the bits. A mask is therefore computed again for the backward
pass instead of kept, and a resumed run draws the same masks.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_tf.model.tensor import Tensor

Shape = Sequence[Tensor | int]

# Constants of the hash lowbias32 (C. Wellons, hash-prospector, public domain).
_SHIFTS = (16, 15, 16)
_FACTORS = (0x7FEB352D, 0x846CA68B)


def bits(seeds: Tensor, count: Tensor | int) -> Tensor:
  """Random bits, uint32 [..., count], for each row of seeds.

  The lower 16 bits are less random than the upper 16.

  Args:
    seeds: int [..., n]. Counted modulo 2**32.
    count: number of draws for each row.
  """
  hashes = keys(seeds)  # [..., 2]
  numbers = ops.cast(ops.arange(count), "uint32")
  return bits_at((hashes[..., :1], hashes[..., 1:]), numbers)


def bits_at(keys: tuple[Tensor, Tensor], numbers: Tensor) -> Tensor:
  """The random bits at indices, uint32 of any shape.

  The keys are the two hashes of a row of seeds, see `keys`.
  """
  x = numbers + keys[0]
  x = _xor_shifted(x, _SHIFTS[0]) * _uint32(_FACTORS[0])
  # Without the second hash, two rows of seeds whose first hashes are close
  # would have the same draws, shifted.
  x = ops.bitwise_xor(x, keys[1])
  # The last step of lowbias32 is left out: it changes only the lower bits.
  return _xor_shifted(x, _SHIFTS[1]) * _uint32(_FACTORS[1])


def keys(seeds: Tensor) -> Tensor:
  """Two hashes of each row of int [..., n], uint32 [..., 2]."""
  offsets = np.arange(1, 2 * seeds.shape[-1] + 1, dtype=np.uint32)
  # 2**32 divided by the golden ratio, whose multiples are spread evenly.
  offsets = ops.reshape(_uint32(offsets * np.uint32(0x9E3779B9)), (2, -1))
  words = ops.expand_dims(ops.cast(seeds, "uint32"), -2) + offsets
  return _hash(ops.sum(_hash(words), axis=-1))


def _hash(x: Tensor) -> Tensor:
  for shift, factor in zip(_SHIFTS, _FACTORS):
    x = _xor_shifted(x, shift) * _uint32(factor)
  return _xor_shifted(x, _SHIFTS[-1])


def _xor_shifted(x: Tensor, shift: int) -> Tensor:
  return ops.bitwise_xor(x, ops.right_shift(x, _uint32(shift)))


def _uint32(value: Any) -> Tensor:
  return ops.convert_to_tensor(value, "uint32")


class Mask:
  """A dropout mask: true for the elements of a tensor that dropout keeps.

  The probability of zeroing equals the rate to within 2**-32.

  Args:
    shape: shape of the tensor: ints, or int [] tensors for unknown sizes.
    rate: fraction that is zeroed, in [0, 1).
    keys: uint32 [2], see `keys`.

  Attributes:
    keys: as given.
    scale: factor of the elements that are kept, 1 / (1 - rate).
    least: the least draw of an element that is kept, int.
  """

  def __init__(self, shape: Shape, rate: float, keys: Tensor) -> None:
    self.scale = 1.0 / (1.0 - rate)
    self.keys = keys
    self.least = round(rate * 2**32)
    self._shape = tuple(shape)
    self._start, self._key = ops.unstack(keys)

  def __call__(self) -> Tensor:
    """The mask, bool of the given shape; each call computes it anew."""
    numbers = ops.reshape(ops.arange(math.prod(self._shape)), self._shape)
    drawn = bits_at((self._start, self._key), ops.cast(numbers, "uint32"))
    return drawn >= _uint32(self.least)
