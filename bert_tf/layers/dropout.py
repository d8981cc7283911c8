"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import keras
from keras import ops

from bert_tf.kernels import hashing
from bert_tf.tensor import Tensor

# Draws whose keys are computed together; BERT-Large has 74 in a step.
_NUM_AT_ONCE = 80


class Seeds(keras.random.SeedGenerator):
  """A generator of a different seed for each call of dropout.

  Seeds are counted from a state, as every SeedGenerator does, or from the
  argument of `counted_from`, so that a training step changes no state.

  Attributes:
    num_drawn: number of keys drawn since `counted_from` was entered.
    part: which of the equal parts of a batch is computed, int or int []; the
      masks of all parts are those of the whole batch.
    compiles_masks: whether XLA compiles what draws a mask. A graph of
      TensorFlow would pass over it a dozen times; a program that XLA compiles
      fuses it into more.
  """

  def __init__(self, seed: int = 0) -> None:
    super().__init__(seed)
    self._first: Tensor | None = None
    self._first_keys: list[Tensor] = []  # Of the draws from 0 on, uint32 [2].
    self.num_drawn = 0
    self.part: Tensor | int = 0
    self.compiles_masks = False

  @contextlib.contextmanager
  def counted_from(
    self,
    first: Tensor,
    part: Tensor | int = 0,
    compiles_masks: bool = False,
  ) -> Iterator[None]:
    """A scope whose seeds are `first`, int [n], with 0, 1, ... behind it."""
    self._first, self.num_drawn, self.part = first, 0, part
    self.compiles_masks = compiles_masks
    self._first_keys = _keys(first, range(_NUM_AT_ONCE))
    try:
      yield
    finally:
      self._first, self._first_keys, self.part = None, [], 0
      self.compiles_masks = False

  def next_keys(self) -> Tensor:
    """Returns `hashing.keys` of the next seed, uint32 [2]."""
    if self._first is None:
      return hashing.keys(self.next())
    number = self.num_drawn
    self.num_drawn += 1
    if number < len(self._first_keys):
      return self._first_keys[number]
    return _keys(self._first, range(number, number + 1))[0]


def _keys(first: Tensor, numbers: range) -> list[Tensor]:
  """Returns the keys of draws counted from first, each uint32 [2]."""
  counts = ops.convert_to_tensor(list(numbers), first.dtype)
  firsts = ops.tile(ops.expand_dims(first, 0), (len(numbers), 1))
  seeds = ops.concatenate([firsts, ops.expand_dims(counts, -1)], axis=1)
  return ops.unstack(hashing.keys(seeds))


@dataclasses.dataclass(frozen=True)
class Rows:
  """Some rows of a larger tensor."""

  # Their numbers there, int, of the shape of the tensor that has them alone
  # without its last axis.
  numbers: Tensor
  count: Tensor | int  # How many the larger tensor has.


class Mask:
  """Which numbers of a tensor dropout keeps.

  It is a function of the seed and of the place in the tensor, the same on every
  backend and device, compiled or not. The share that is zeroed, rate in [0, 1),
  is met to 2**-32.

  Args:
    shape: of the tensor; ints, or int [] where it is not known.
    rate: share that is zeroed, in [0, 1).
    seeds: what the key is drawn from, once.
    rows: if the tensor has but some rows of a larger one, which; what is kept
      of them is what would be there.

  Attributes:
    scale: what the rest is multiplied by.
  """

  def __init__(
    self,
    shape: Sequence[Tensor | int],
    rate: float,
    seeds: Seeds,
    rows: Rows | None = None,
  ) -> None:
    self.scale = 1.0 / (1.0 - rate)
    self._shape = tuple(shape)
    self._rows = rows
    self._size = rows.count * shape[-1] if rows else math.prod(shape)
    start, self._key = ops.unstack(seeds.next_keys())
    self._start = start + ops.cast(seeds.part * self._size, "uint32")
    self._least = ops.convert_to_tensor(round(rate * 2**32), "uint32")
    self._compiles = seeds.compiles_masks and not rows

  def __call__(self) -> Tensor:
    """Returns bools of the shape, computed anew."""
    drawn = self._start, self._key, self._least
    if self._compiles:
      is_kept = _compiled_mask()(*drawn, _rounded_up(self._size))
      return ops.reshape(is_kept[: self._size], self._shape)
    if self._rows:
      width = self._shape[-1]
      first = ops.expand_dims(self._rows.numbers * width, -1)
      return _is_kept(*drawn, first + ops.arange(width))
    return _is_kept(*drawn, ops.reshape(ops.arange(self._size), self._shape))


def dropout(
  x: Tensor,
  rate: float,
  seeds: Seeds,
  training: bool,
  rows: Rows | None = None,
) -> Tensor:
  """Zeroes a share of x and scales up the rest; x itself if not training.

  `rate`, `seeds` and `rows` are those of Mask.
  """
  if not training or rate == 0.0:
    return x
  mask = Mask(ops.shape(x), rate, seeds, rows)
  return ops.where(mask(), x * mask.scale, 0.0)


def _is_kept(
  start: Tensor, key: Tensor, least: Tensor, numbers: Tensor
) -> Tensor:
  """Returns whether the draws of these numbers are at least `least`."""
  bits = hashing.bits_at((start, key), ops.cast(numbers, "uint32"))
  return bits >= least


@functools.cache
def _compiled_mask() -> Callable[..., Tensor]:
  """Returns a function that draws a mask of a size; XLA compiles each size."""
  import tensorflow as tf

  def mask(start: Tensor, key: Tensor, least: Tensor, size: Tensor) -> Tensor:
    return _is_kept(start, key, least, tf.range(size))

  keys = [tf.TensorSpec([], tf.uint32)] * 3
  compiled = tf.function(mask, jit_compile=True, autograph=False)
  return compiled.get_concrete_function(*keys, tf.TensorSpec([], tf.int32))


def _rounded_up(size: Tensor | int) -> Tensor:
  """Returns the next number of three binary digits, int32 [].

  Batches of varying widths have few such sizes.
  """
  import tensorflow as tf

  digits = tf.math.log(tf.cast(size, tf.float64)) / math.log(2.0)
  unit = tf.cast(2.0 ** tf.maximum(tf.floor(digits) - 2.0, 0.0), tf.int32)
  return (size + unit - 1) // unit * unit
