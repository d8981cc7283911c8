"""Dropout whose masks are a function of seeds that a training step sets."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops

from bert_tf.model.kernels import hashing
from bert_tf.model.tensor import Tensor


class Seeds(keras.random.SeedGenerator):
  """Generates a different seed for each call of dropout.

  Seeds are counted from a state, as in every SeedGenerator, or from the
  argument of `counted_from`. A training step uses the second way: it changes no
  state, and a resumed run draws the masks of an uninterrupted run.

  Attributes:
    num_drawn: number of keys drawn since `counted_from` was entered.
  """

  def __init__(self, seed: int = 0) -> None:
    super().__init__(seed)
    self._first: Tensor | None = None
    self._first_keys: list[Tensor] = []  # uint32 [2]. Keys of the first draws.
    self.num_drawn = 0

  @contextlib.contextmanager
  def counted_from(self, first: Tensor) -> Iterator[None]:
    """Within this scope, draw number i is seeded with (*first, i), int [n]."""
    self._first, self.num_drawn = first, 0
    # A training step of BERT-Large has 74 draws.
    self._first_keys = _keys(first, range(80))
    try:
      yield
    finally:
      self._first, self._first_keys = None, []

  def draw_mask(self, shape: hashing.Shape, rate: float) -> hashing.Mask:
    """Advances the seed and returns its mask; see hashing.Mask."""
    if self._first is None:
      keys = hashing.keys(self.next())
    elif self.num_drawn < len(self._first_keys):
      keys = self._first_keys[self.num_drawn]
    else:
      [keys] = _keys(self._first, range(self.num_drawn, self.num_drawn + 1))
    self.num_drawn += 1
    return hashing.Mask(shape, rate, keys)


def _keys(first: Tensor, numbers: range) -> list[Tensor]:
  """The keys of the draws (*first, number), each uint32 [2]."""
  counts = ops.convert_to_tensor(list(numbers), first.dtype)
  firsts = ops.tile(ops.expand_dims(first, 0), (len(numbers), 1))
  seeds = ops.concatenate([firsts, ops.expand_dims(counts, -1)], axis=1)
  return ops.unstack(hashing.keys(seeds))


def dropout(x: Tensor, rate: float, seeds: Seeds, training: bool) -> Tensor:
  """Zeroes a fraction of the numbers of x and scales up the rest.

  The rate is in [0, 1). Without `training`, x is returned unchanged.
  """
  if not training or rate == 0.0:
    return x
  mask = seeds.draw_mask(ops.shape(x), rate)
  return ops.where(mask(), x * mask.scale, 0.0)
