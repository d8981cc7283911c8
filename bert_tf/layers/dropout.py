"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator

import keras
from keras import ops

from bert_tf.layers import hashing
from bert_tf.layers.tensor import Tensor

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


def dropout(
  x: Tensor,
  rate: float,
  seeds: Seeds,
  training: bool,
  rows: Rows | None = None,
) -> Tensor:
  """Zeroes a share of x and scales up the rest; x itself if not training.

  What is zeroed is a function of the seed and of the place in x, the same on
  every backend and device, compiled or not. The share, rate in [0, 1), is met
  to 2**-32. If x has but some rows of a larger tensor, what is zeroed of them
  is what would be there.
  """
  if not training or rate == 0.0:
    return x
  width = ops.shape(x)[-1]
  size = rows.count * width if rows else ops.size(x)
  start, key = ops.unstack(seeds.next_keys())
  start = start + ops.cast(seeds.part * size, "uint32")
  least = ops.convert_to_tensor(round(rate * 2**32), "uint32")
  if rows:
    numbers = ops.expand_dims(rows.numbers * width, -1) + ops.arange(width)
    is_kept = _is_kept(start, key, least, numbers)
  elif seeds.compiles_masks:
    is_kept = _compiled_mask()(start, key, least, _rounded_up(size))[:size]
    is_kept = ops.reshape(is_kept, ops.shape(x))
  else:
    numbers = ops.reshape(ops.arange(size), ops.shape(x))
    is_kept = _is_kept(start, key, least, numbers)
  return ops.where(is_kept, x * (1.0 / (1.0 - rate)), 0.0)


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


def _rounded_up(size: Tensor) -> Tensor:
  """Returns the next number of three binary digits, int32 [].

  Batches of varying widths have few such sizes.
  """
  import tensorflow as tf

  digits = tf.math.log(tf.cast(size, tf.float64)) / math.log(2.0)
  unit = tf.cast(2.0 ** tf.maximum(tf.floor(digits) - 2.0, 0.0), size.dtype)
  return (size + unit - 1) // unit * unit
