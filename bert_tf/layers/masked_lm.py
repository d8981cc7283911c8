"""The loss, accuracy and gradients of the masked-LM output, by row blocks.

The logits, [B*P, V], are the largest tensor of pre-training. They are computed
a block of rows at a time, and each block's share of the loss and of the
gradients before the next one takes its place.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from bert_tf.layers import pieces
from bert_tf.layers.tensor import Tensor

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
    found, gradients = _over_rows(batch, training)

    def backward(
      *args: Tensor, upstream: Tensor | None = None
    ) -> tuple[Tensor, ...]:
      by_loss = (args[0] if upstream is None else upstream)[0]
      known = gradients or _over_rows(batch, True)[1]
      # The sum of losses is divided by its weight, so this is one number.
      hidden_gradient = ops.cast(known[0] * by_loss, hidden.dtype)
      return hidden_gradient, known[1] * by_loss, known[2] * by_loss

    return found, backward

  return run(hidden, table, bias)


def _over_rows(
  batch: _Batch, with_gradients: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
  """Returns the sums and the gradients of the first, () if not asked for."""
  gradients = _label_gradients(batch) if with_gradients else ()
  if batch.ids.shape[0] is not None and batch.ids.shape[0] <= _BLOCK_ROWS:
    found, more = _block(batch, with_gradients)
    return found, tuple(a + b for a, b in zip(gradients, more))
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
    more, gradients = pieces.in_loop(_block)(block, with_gradients)
    if with_gradients:
      shape = ops.shape(batch.hidden)
      of_hidden = ops.scatter(rows[:, None], gradients[0], shape)
      gradients = (of_hidden, *gradients[1:])
    totals = tuple(a + b for a, b in zip(totals, gradients))
    return start + size, found + more, *totals

  values = (ops.zeros((), "int32"), ops.zeros(2), *gradients)
  for size, num_left in ((_BLOCK_ROWS, _LAST_ROWS), (_LAST_ROWS, 0)):
    values = ops.while_loop(
      lambda start, *_, end=num_left: start + end < num_rows,
      functools.partial(add_block, size),
      values,
    )
  return values[1], tuple(values[2:])


def _label_gradients(batch: _Batch) -> tuple[Tensor, Tensor, Tensor]:
  """Returns what the labels' own logits give, float32."""
  hidden = ops.cast(batch.hidden, "float32")
  weights = batch.weights[:, None]
  rows = batch.ids[:, None]
  return (
    -weights * ops.take(batch.table, batch.ids, axis=0),
    ops.scatter(rows, -weights * hidden, ops.shape(batch.table)),
    ops.scatter(rows, -batch.weights, ops.shape(batch.bias)),
  )


def _block(
  batch: _Batch, with_gradients: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
  """Returns the sums of all rows, and what all logits give to the gradients."""
  dtype = batch.hidden.dtype
  table = ops.cast(batch.table, dtype)
  # [V, rows]: sums over the vocabulary then add whole rows of memory to each
  # other, which takes half as long as sums within a row.
  products = ops.matmul(table, ops.transpose(batch.hidden))
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
  if not with_gradients:
    return found, ()
  scales = (batch.weights / totals)[:, None]
  powers = ops.cast(powers, dtype)
  scaled = ops.cast(batch.hidden, "float32") * scales
  by_hidden = ops.matmul(ops.transpose(powers), table)
  by_table = ops.matmul(powers, ops.cast(scaled, dtype))
  by_bias = ops.matmul(powers, ops.cast(scales, dtype))[:, 0]
  return found, (
    ops.cast(by_hidden, "float32") * scales,
    ops.cast(by_table, "float32"),
    ops.cast(by_bias, "float32"),
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
