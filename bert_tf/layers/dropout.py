"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
import dataclasses
from collections.abc import Iterator

import keras
from keras import ops

from bert_tf.layers import hashing
from bert_tf.layers.tensor import Tensor


class Seeds(keras.random.SeedGenerator):
  """A generator of a different seed for each call of dropout.

  Seeds are counted from a state, as every SeedGenerator does, or from the
  argument of `counted_from`, so that a training step changes no state.

  Attributes:
    num_drawn: number of seeds drawn since `counted_from` was entered.
    part: which of the equal parts of a batch is computed, int or int []; the
      masks of all parts are those of the whole batch.
  """

  def __init__(self, seed: int = 0) -> None:
    super().__init__(seed)
    self._first: Tensor | None = None
    self.num_drawn = 0
    self.part: Tensor | int = 0

  @contextlib.contextmanager
  def counted_from(
    self, first: Tensor, part: Tensor | int = 0
  ) -> Iterator[None]:
    """A scope whose seeds are `first`, int [n], with 0, 1, ... behind it."""
    self._first, self.num_drawn, self.part = first, 0, part
    try:
      yield
    finally:
      self._first, self.part = None, 0

  def next(self, ordered: bool = True) -> Tensor:
    """Returns the next seed, int [n + 1]; [2] outside of `counted_from`."""
    if self._first is None:
      return super().next(ordered)
    count = ops.convert_to_tensor([self.num_drawn], self._first.dtype)
    self.num_drawn += 1
    return ops.concatenate([self._first, count])


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
  if rows is None:
    size = ops.size(x)
    bits = hashing.bits(seeds.next(), size, seeds.part * size)
    bits = ops.reshape(bits, ops.shape(x))
  else:
    width = ops.shape(x)[-1]
    columns = ops.cast(ops.arange(width), "uint32")
    starts = ops.cast(rows.numbers * width, "uint32")
    first = ops.cast(seeds.part * (rows.count * width), "uint32")
    numbers = ops.expand_dims(starts, -1) + columns
    bits = hashing.bits_at(seeds.next(), numbers, first)
  least = ops.convert_to_tensor(round(rate * 2**32), "uint32")
  is_kept = ops.cast(bits >= least, x.dtype)
  return x * (is_kept * (1.0 / (1.0 - rate)))
