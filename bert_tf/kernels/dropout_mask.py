"""Dropout masks as a function of a key and of the index in the tensor.

    mask[i] = hash(key, i) >= rate * 2**32

These bits are the same on all devices, backends and compilers. A mask is
therefore computed again for the backward pass instead of kept, and a resumed
run draws the same masks. Each part of a batch draws its own part of the mask of
the whole batch.

A graph of TensorFlow passes over the mask a dozen times. `_compiled_mask` is
one pass, compiled by XLA; other backends and programs that XLA compiles anyway
use `_is_kept`.
"""

import functools
import math
from collections.abc import Callable, Sequence

from keras import ops

from bert_tf.kernels import hashing
from bert_tf.tensor import Tensor


class Mask:
  """A dropout mask: true for the elements of a tensor that dropout keeps.

  The probability of zeroing equals the rate to within 2**-32.

  Args:
    shape: shape of the tensor: ints, or int [] tensors for unknown sizes.
    rate: share that is zeroed, in [0, 1).
    keys: uint32 [2], see `hashing.keys`.
    part: index of the part of the batch that the tensor belongs to, int or int
      []. The parts have equal sizes.
    is_compiled: whether XLA compiles the mask.

  Attributes:
    scale: factor of the elements that are kept, 1 / (1 - rate).
    least: the least draw of an element that is kept, int.
  """

  def __init__(
    self,
    shape: Sequence[Tensor | int],
    rate: float,
    keys: Tensor,
    part: Tensor | int = 0,
    is_compiled: bool = False,
  ) -> None:
    self.scale = 1.0 / (1.0 - rate)
    self._shape = tuple(shape)
    self._size = math.prod(self._shape)
    start, self._key = ops.unstack(keys)
    self._start = start + ops.cast(part * self._size, "uint32")
    self.least = round(rate * 2**32)
    self._least = ops.convert_to_tensor(self.least, "uint32")
    self._is_compiled = is_compiled

  @property
  def keys(self) -> Tensor:
    """The keys of this part's draws, uint32 [2]."""
    return ops.stack([self._start, self._key])

  def __call__(self) -> Tensor:
    """Returns the mask, bool of the given shape; each call computes it anew."""
    drawn = self._start, self._key, self._least
    if self._is_compiled:
      is_kept = _compiled_mask()(*drawn, _rounded_up(self._size))
      return ops.reshape(is_kept[: self._size], self._shape)
    return _is_kept(*drawn, ops.reshape(ops.arange(self._size), self._shape))


def _is_kept(
  start: Tensor, key: Tensor, least: Tensor, numbers: Tensor
) -> Tensor:
  """Returns whether the draw at each index in `numbers` is at least `least`."""
  bits = hashing.bits_at((start, key), ops.cast(numbers, "uint32"))
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
