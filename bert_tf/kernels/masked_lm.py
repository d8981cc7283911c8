"""The loss, accuracy and gradients of the masked-LM output, by row blocks.

The logits, [B*P, V], are the largest tensor of pre-training. They are computed
a block of rows at a time, and each block's share of the loss and of the
gradients before the next one takes its place.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from bert_tf.kernels import backend, clusters, tied_embedding
from bert_tf.tensor import Tensor

# Rows of a block. Each block adds to the gradient of the whole table, so much
# smaller ones spend their time there.
_BLOCK_ROWS = 320

# Of the last block, where no more are left.
_LAST_ROWS = 160


class _Batch(NamedTuple):
  """The arguments of `sums`."""

  hidden: Tensor
  table: Tensor
  bias: Tensor
  ids: Tensor
  weights: Tensor

  def scaled(self, factor: Tensor) -> "_Batch":
    """Returns the batch with its weights multiplied."""
    return self._replace(weights=self.weights * factor)


class _Softmax(NamedTuple):
  """What the gradients of a block need of its logits."""

  powers: Tensor  # [V, rows], in the type of `hidden`: probabilities * totals.
  totals: Tensor  # float32 [rows].


# The gradients of the sum of losses for `hidden`, `table` and `bias`, float32.
_Gradients = tuple[Tensor, Tensor, Tensor]


def logits(hidden: Tensor, table: Tensor, bias: Tensor) -> Tensor:
  """Returns the logits, float [rows, V], in the type of `hidden`.

  Args:
    hidden: float [rows, D].
    table: float32 [V, D], the word embeddings.
    bias: float32 [V].
  """
  table = ops.cast(table, hidden.dtype)
  products = ops.matmul(hidden, ops.transpose(table))
  return ops.cast(ops.cast(products, bias.dtype) + bias, hidden.dtype)


def sums(
  hidden: Tensor,
  table: Tensor,
  bias: Tensor,
  ids: Tensor,
  weights: Tensor,
  training: bool,
) -> Tensor:
  """Returns the weighted sums of losses and of hits, float32 [2].

  The first has a gradient for `hidden`, `table` and `bias`. A hit is a label
  with the largest logit. Of more rows than a block has, only those with a
  weight are computed.

  Args:
    hidden: float [rows, D].
    table: float32 [V, D], the word embeddings.
    bias: float32 [V].
    ids: int [rows], the labels.
    weights: float32 [rows], 0 for padding.
    training: whether the gradients will be needed; they are computed together
      with the loss then.
  """

  @ops.custom_gradient
  def run(
    hidden: Tensor, table: Tensor, bias: Tensor
  ) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
    batch = _Batch(hidden, table, bias, ids, weights)
    is_one_block = ids.shape[0] is not None and ids.shape[0] <= _BLOCK_ROWS
    found, gradients = (
      _of_one_block(batch) if is_one_block else _of_blocks(batch, training)
    )

    def backward(
      *args: Tensor, upstream: Tensor | None = None
    ) -> tuple[Tensor, ...]:
      # The sum of losses is divided by its weight, so this is one number.
      by_loss = (args[0] if upstream is None else upstream)[0]
      of_hidden, *others = gradients(by_loss)
      return ops.cast(of_hidden, hidden.dtype), *others

    return found, backward

  return run(hidden, table, bias)


def _of_one_block(
  batch: _Batch,
) -> tuple[Tensor, Callable[[Tensor], _Gradients]]:
  """Returns the sums, and what takes a factor of them to the gradients."""
  found, softmax = _block(batch)
  return found, lambda factor: _gradients(batch.scaled(factor), softmax)


def _of_blocks(
  batch: _Batch, training: bool
) -> tuple[Tensor, Callable[[Tensor], _Gradients]]:
  """Returns what _of_one_block does, of any number of rows."""
  found, known = _over_rows(batch, training)

  def gradients(factor: Tensor) -> _Gradients:
    by_rows = known or _over_rows(batch, True)[1]
    first, second, third = (gradient * factor for gradient in by_rows)
    return first, second, third

  return found, gradients


def _over_rows(
  batch: _Batch, with_gradients: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
  """Returns the sums and the gradients of the first, () if not asked for."""
  # Rows that have a weight come first, so that shapes need not depend on how
  # many there are: as XLA wants it, the number of blocks does.
  has_weight = batch.weights > 0
  order = ops.argsort(ops.cast(~has_weight, "int32"))
  num_rows = ops.sum(ops.cast(has_weight, "int32"))
  weights = ops.take(batch.weights, order)
  # The last block may reach past the end.
  order = ops.pad(order, (0, _BLOCK_ROWS))
  weights = ops.pad(weights, (0, _BLOCK_ROWS))

  def add_block(
    size: int, start: Tensor, found: Tensor, *totals: Tensor
  ) -> tuple[Tensor, ...]:
    rows = ops.slice(order, [start], [size])
    block = batch._replace(
      hidden=ops.take(batch.hidden, rows, axis=0),
      ids=ops.take(batch.ids, rows),
      weights=ops.slice(weights, [start], [size]),
    )
    more, softmax = clusters.in_loop(_block)(block)
    if with_gradients:
      of_hidden, *others = clusters.in_loop(_gradients)(block, softmax)
      of_hidden = tied_embedding.add_rows(totals[0], rows, of_hidden)
      totals = (of_hidden, *(a + b for a, b in zip(totals[1:], others)))
    return start + size, found + more, *totals

  values = (ops.zeros((), "int32"), ops.zeros(2))
  if with_gradients:
    of = batch.hidden, batch.table, batch.bias
    values += tuple(ops.zeros(ops.shape(x), "float32") for x in of)
  for size, num_left in ((_BLOCK_ROWS, _LAST_ROWS), (_LAST_ROWS, 0)):
    values = ops.while_loop(
      lambda start, *_, end=num_left: start + end < num_rows,
      functools.partial(add_block, size),
      values,
    )
  return values[1], tuple(values[2:])


def _block(batch: _Batch) -> tuple[Tensor, _Softmax]:
  """Returns the sums of all rows, and their softmax."""
  dtype = batch.hidden.dtype
  table = ops.cast(batch.table, dtype)
  # [V, rows]: sums over the vocabulary then add whole rows of memory to each
  # other, which takes half as long as sums within a row.
  products = backend.matmul(table, batch.hidden, transpose_b=True)
  values = ops.cast(products, "float32") + batch.bias[:, None]
  # Not of `values`, which XLA need not keep then.
  of_labels = _of_labels(products, batch.ids) + ops.take(batch.bias, batch.ids)
  largest = ops.max(values, axis=0)
  powers = ops.exp(values - largest)
  totals = ops.sum(powers, axis=0)
  losses = ops.log(totals) + (largest - of_labels)
  hits = ops.equal(of_labels, largest)
  if dtype != "float32":  # Several may be the largest: the first one counts.
    hits = ops.logical_and(hits, _before_labels(values, batch.ids) < largest)
  both = ops.stack([losses, ops.cast(hits, "float32")], axis=-1)
  found = ops.sum(both * batch.weights[:, None], axis=0)
  return found, _Softmax(ops.cast(powers, dtype), totals)


def _gradients(batch: _Batch, softmax: _Softmax) -> _Gradients:
  """Returns the gradients of a block."""
  dtype = batch.hidden.dtype
  table = ops.cast(batch.table, dtype)
  hidden = ops.cast(batch.hidden, "float32")
  weights = batch.weights[:, None]
  scales = weights / softmax.totals[:, None]
  by_hidden = backend.matmul(softmax.powers, table, transpose_a=True)
  by_table = ops.matmul(softmax.powers, ops.cast(hidden * scales, dtype))
  by_bias = ops.matmul(softmax.powers, ops.cast(scales, dtype))[:, 0]
  # The labels' own logits have a part besides.
  of_labels = ops.take(batch.table, batch.ids, axis=0)
  return (
    ops.cast(by_hidden, "float32") * scales - weights * of_labels,
    tied_embedding.add_rows(
      ops.cast(by_table, "float32"), batch.ids, -weights * hidden
    ),
    tied_embedding.add_rows(
      ops.cast(by_bias, "float32"), batch.ids, -batch.weights
    ),
  )


def _of_labels(products: Tensor, ids: Tensor) -> Tensor:
  """Returns the products of the labels, float32 [rows], of all [V, rows]."""
  num_rows = ops.shape(products)[1]
  # Keras' take_along_axis would turn the whole of it.
  places = ops.cast(ids, "int32") * num_rows + ops.arange(num_rows)
  return ops.cast(ops.take(ops.reshape(products, [-1]), places), "float32")


def _before_labels(values: Tensor, ids: Tensor) -> Tensor:
  """Returns each column's largest value before its label, [rows]."""
  numbers = ops.arange(values.shape[0], dtype=ids.dtype)[:, None]
  return ops.max(ops.where(numbers < ids, values, -float("inf")), axis=0)
