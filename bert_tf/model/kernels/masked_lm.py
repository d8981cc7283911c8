"""Loss, accuracy and gradients of the masked LM without holding all logits.

    logits = hidden @ table^T + bias                       [rows, V]
    loss = sum(weights * (logsumexp(logits) - logits[ids]))
    hits = sum(weights * (argmax(logits) == ids))

The logits are the largest tensor of pre-training: for 32 x 20 masked positions
and V 30,522, 78 MB, of which automatic differentiation keeps several forms.
These functions compute loss and gradients of a block of rows before the next
block takes its place, and skip rows without a weight (padding). A GPU computes
all rows as one block: it waits for the host before each block of a loop.

Shapes: D hidden size, V vocabulary; rows are masked positions of the batch.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from keras import ops

from bert_tf.model.kernels import backend, clusters
from bert_tf.model.tensor import Tensor

# Number of rows in a block. Each block adds to the gradient of the whole table,
# so much smaller blocks would spend most of their time on this.
_BLOCK_ROWS = 320

# Number of rows in the last block, if at most this many rows remain.
_LAST_ROWS = 160


class _Batch(NamedTuple):
  """The arguments of `sums`."""

  hidden: Tensor
  table: Tensor
  bias: Tensor
  ids: Tensor
  weights: Tensor


class _Softmax(NamedTuple):
  """The softmax of a block before the division: powers / totals."""

  powers: Tensor  # [V, rows], type of `hidden`. exp(logit - largest logit).
  totals: Tensor  # float32 [rows]. Sums of the columns of `powers`.


def logits(hidden: Tensor, table: Tensor, bias: Tensor) -> Tensor:
  """The logits, float [rows, V]; see `sums` for the arguments."""
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
  """The weighted sums of losses and of hits, float32 [2].

  The sum of losses has a gradient for `hidden`, `table` and `bias`. A hit is a
  label with the largest logit. The first of equal logits counts, except in
  training with float32, where ties are rare.

  Args:
    hidden: float [rows, D].
    table: float32 [V, D]. The word embeddings.
    bias: float32 [V].
    ids: int [rows]. The labels.
    weights: float32 [rows]. 0 for padding.
    training: whether to compute the gradients together with the loss.
  """
  if backend.in_gpu_program():
    # Tensor cores need rows in eights. XLA would pad the logits for them.
    padding = (0, -table.shape[0] % 8)
    table = ops.pad(table, (padding, (0, 0)))
    bias = ops.pad(bias, (padding,), constant_values=-float("inf"))

  @tf.custom_gradient
  def forward(
    hidden: Tensor, table: Tensor, bias: Tensor
  ) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
    batch = _Batch(hidden, table, bias, ids, weights)
    num_rows = ids.shape[0]
    if num_rows is not None and (
      num_rows <= _BLOCK_ROWS or backend.in_gpu_program()
    ):
      totals, softmax = _sum_block(batch, training)

      def gradients(factor: Tensor) -> tuple[Tensor, ...]:
        scaled = batch._replace(weights=weights * factor)
        return _block_gradients(scaled, softmax)

    else:
      totals, known_gradients = _loop_over_blocks(batch, training)

      def gradients(factor: Tensor) -> tuple[Tensor, ...]:
        unscaled = known_gradients or _loop_over_blocks(batch, True)[1]
        return tuple(gradient * factor for gradient in unscaled)

    def backward(d_sums: Tensor) -> tuple[Tensor, ...]:
      # Only the sum of losses is differentiated, so its factor is one number.
      d_hidden, d_table, d_bias = gradients(d_sums[0])
      return ops.cast(d_hidden, hidden.dtype), d_table, d_bias

    return totals, backward

  return forward(hidden, table, bias)


def _loop_over_blocks(
  batch: _Batch, with_gradients: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
  """The sums, and the gradients of the loss sum or ()."""
  # Rows that have a weight come first. The number of these rows then decides
  # only the number of blocks, not a shape, which XLA would not allow.
  has_weight = batch.weights > 0
  order = ops.argsort(ops.cast(~has_weight, "int32"))
  num_rows = ops.sum(ops.cast(has_weight, "int32"))
  weights = ops.take(batch.weights, order)
  # The last block may reach past the end.
  order = ops.pad(order, (0, _BLOCK_ROWS))
  weights = ops.pad(weights, (0, _BLOCK_ROWS))

  def add_block(
    size: int, start: Tensor, totals: Tensor, *gradients: Tensor
  ) -> tuple[Tensor, ...]:
    rows = ops.slice(order, [start], [size])
    block = batch._replace(
      hidden=ops.take(batch.hidden, rows, axis=0),
      ids=ops.take(batch.ids, rows),
      weights=ops.slice(weights, [start], [size]),
    )
    block_totals, softmax = clusters.in_loop(_sum_block)(block, with_gradients)
    if with_gradients:
      d_hidden, d_table, d_bias = gradients
      d_block = clusters.in_loop(_block_gradients)(block, softmax)
      gradients = (
        tf.tensor_scatter_nd_add(d_hidden, rows[:, None], d_block[0]),
        d_table + d_block[1],
        d_bias + d_block[2],
      )
    return start + size, totals + block_totals, *gradients

  values = (ops.zeros((), "int32"), ops.zeros(2))
  if with_gradients:
    inputs = batch.hidden, batch.table, batch.bias
    values += tuple(ops.zeros(ops.shape(x), "float32") for x in inputs)
  for size, num_left in ((_BLOCK_ROWS, _LAST_ROWS), (_LAST_ROWS, 0)):
    values = ops.while_loop(
      lambda start, *_, end=num_left: start + end < num_rows,
      functools.partial(add_block, size),
      values,
    )
  return values[1], tuple(values[2:])


def _sum_block(batch: _Batch, training: bool) -> tuple[Tensor, _Softmax]:
  """The sums over all rows of a block, and the block's softmax."""
  dtype = batch.hidden.dtype
  table = ops.cast(batch.table, dtype)
  # [V, rows]: sums over the vocabulary then add whole rows of memory to each
  # other, which takes half as long as sums within a row.
  products = tf.matmul(table, batch.hidden, transpose_b=True)
  values = ops.cast(products, "float32") + batch.bias[:, None]
  # Read from `products`, not from `values`, so that XLA need not keep `values`.
  # Keras' take_along_axis would transpose all products.
  num_rows = ops.shape(products)[1]
  indexes = ops.cast(batch.ids, "int32") * num_rows + ops.arange(num_rows)
  label_logits = ops.take(ops.reshape(products, [-1]), indexes)
  label_bias = ops.take(batch.bias, batch.ids)
  label_logits = ops.cast(label_logits, "float32") + label_bias
  largest = ops.max(values, axis=0)
  powers = ops.exp(values - largest)
  totals = ops.sum(powers, axis=0)
  losses = ops.log(totals) + (largest - label_logits)
  hits = ops.equal(label_logits, largest)
  if dtype != "float32" or not training:  # 16-bit logits tie often.
    numbers = ops.arange(ops.shape(values)[0], dtype=batch.ids.dtype)[:, None]
    before = ops.where(numbers < batch.ids, values, -float("inf"))
    hits = ops.logical_and(hits, ops.max(before, axis=0) < largest)
  losses_and_hits = ops.stack([losses, ops.cast(hits, "float32")], axis=-1)
  sums = ops.sum(losses_and_hits * batch.weights[:, None], axis=0)
  return sums, _Softmax(ops.cast(powers, dtype), totals)


def _block_gradients(batch: _Batch, softmax: _Softmax) -> tuple[Tensor, ...]:
  """A block's part of the gradients of hidden, table and bias."""
  # d_logits = weights * (probabilities - one_hot(ids)). The first term is a
  # product with `powers`, the second is added at the labels only.
  dtype = batch.hidden.dtype
  table = ops.cast(batch.table, dtype)
  hidden = ops.cast(batch.hidden, "float32")
  weights = batch.weights[:, None]
  scales = weights / softmax.totals[:, None]
  d_hidden = tf.matmul(softmax.powers, table, transpose_a=True)
  d_table = ops.matmul(softmax.powers, ops.cast(hidden * scales, dtype))
  d_bias = ops.matmul(softmax.powers, ops.cast(scales, dtype))[:, 0]
  label_rows = ops.take(batch.table, batch.ids, axis=0)
  labels = batch.ids[:, None]
  d_table, d_bias = ops.cast(d_table, "float32"), ops.cast(d_bias, "float32")
  return (
    ops.cast(d_hidden, "float32") * scales - weights * label_rows,
    tf.tensor_scatter_nd_add(d_table, labels, -weights * hidden),
    tf.tensor_scatter_nd_add(d_bias, labels, -batch.weights),
  )
