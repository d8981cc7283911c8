"""Random bits as a function of seeds and of an index i, and dropout masks.

    bits[i] = mix(hash_1(seeds) + i, hash_2(seeds))       uint32
    mask[i] = bits[i] >= rate * 2**32

These bits are the same on all backends, devices and compilers, and each can be
computed without the ones before it. XLA fuses the few integer operations into
the loop that uses the bits. A mask is therefore computed again for the backward
pass instead of kept, and a resumed run draws the same masks.

A graph of TensorFlow passes over a mask a dozen times. `_compiled_mask` is one
pass, compiled by XLA; other backends and programs that XLA compiles anyway use
`_is_kept`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import ops

from bert_tf.tensor import Tensor

# Constants of the hash lowbias32 (C. Wellons, hash-prospector, public domain).
_SHIFTS = (16, 15, 16)
_FACTORS = (0x7FEB352D, 0x846CA68B)

# 2**32 divided by the golden ratio. Its multiples are spread evenly.
_GOLDEN = 0x9E3779B9


def bits(seeds: Tensor, count: Tensor | int) -> Tensor:
  """Returns random bits, uint32 [..., count], for each row of seeds.

  The lower 16 bits are less random than the upper 16.

  Args:
    seeds: int [..., n]. Counted modulo 2**32.
    count: number of draws for each row.
  """
  hashes = keys(seeds)  # [..., 2]
  numbers = ops.cast(ops.arange(count), "uint32")
  return bits_at((hashes[..., :1], hashes[..., 1:]), numbers)


def bits_at(keys: tuple[Tensor, Tensor], numbers: Tensor) -> Tensor:
  """Returns the random bits at indices, uint32 of any shape.

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


class Mask:
  """A dropout mask: true for the elements of a tensor that dropout keeps.

  The probability of zeroing equals the rate to within 2**-32.

  Args:
    shape: shape of the tensor: ints, or int [] tensors for unknown sizes.
    rate: fraction that is zeroed, in [0, 1).
    keys: uint32 [2], see `keys`.
    is_compiled: whether XLA compiles the mask.

  Attributes:
    keys: as given.
    scale: factor of the elements that are kept, 1 / (1 - rate).
    least: the least draw of an element that is kept, int.
  """

  def __init__(
    self,
    shape: Sequence[Tensor | int],
    rate: float,
    keys: Tensor,
    is_compiled: bool = False,
  ) -> None:
    self.scale = 1.0 / (1.0 - rate)
    self._shape = tuple(shape)
    self._size = math.prod(self._shape)
    self.keys = keys
    self.least = round(rate * 2**32)
    self._drawn = *ops.unstack(keys), _uint32(self.least)
    self._is_compiled = is_compiled

  def __call__(self) -> Tensor:
    """Returns the mask, bool of the given shape; each call computes it anew."""
    if self._is_compiled:
      is_kept = _compiled_mask()(*self._drawn, _rounded_up(self._size))
      return ops.reshape(is_kept[: self._size], self._shape)
    return _is_kept(
      *self._drawn, ops.reshape(ops.arange(self._size), self._shape)
    )


def _is_kept(
  start: Tensor, key: Tensor, least: Tensor, numbers: Tensor
) -> Tensor:
  """Returns whether the draw at each index in `numbers` is at least `least`."""
  bits = bits_at((start, key), ops.cast(numbers, "uint32"))
  return bits >= least


@functools.cache
def _compiled_mask() -> Callable[..., Tensor]:
  """Returns a function that draws bool [size]; XLA compiles each size once."""
  import tensorflow as tf

  def mask(start: Tensor, key: Tensor, least: Tensor, size: Tensor) -> Tensor:
    return _is_kept(start, key, least, tf.range(size))

  keys = [tf.TensorSpec([], tf.uint32)] * 3
  compiled = tf.function(mask, jit_compile=True, autograph=False)
  return compiled.get_concrete_function(*keys, tf.TensorSpec([], tf.int32))


def _rounded_up(size: Tensor | int) -> Tensor:
  """Rounds up to three significant binary digits: XLA compiles each size."""
  import tensorflow as tf

  digits = tf.math.log(tf.cast(size, tf.float64)) / math.log(2.0)
  unit = tf.cast(2.0 ** tf.maximum(tf.floor(digits) - 2.0, 0.0), tf.int32)
  return (size + unit - 1) // unit * unit
