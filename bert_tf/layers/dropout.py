"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
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


def dropout(x: Tensor, rate: float, seeds: Seeds, training: bool) -> Tensor:
  """Zeroes a share of x and scales up the rest; x itself if not training.

  What is zeroed is a function of the seed and of the place in x, the same on
  every backend and device, compiled or not. The share, rate in [0, 1), is met
  to 2**-32.
  """
  if not training or rate == 0.0:
    return x
  size = ops.size(x)
  bits = hashing.bits(seeds.next(), size, seeds.part * size)
  least = ops.convert_to_tensor(round(rate * 2**32), "uint32")
  is_kept = ops.reshape(bits >= least, ops.shape(x))
  return x * (ops.cast(is_kept, x.dtype) * (1.0 / (1.0 - rate)))
