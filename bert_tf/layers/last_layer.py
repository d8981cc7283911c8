"""Where the last encoder layer is computed.

Nothing reads the other positions of its output: of a classifier's layer one
position is needed, in pre-training those of the masked word pieces besides.

Shapes: B batch, F positions, P those that are asked for, K pooled ones, D
hidden size.
"""

from keras import ops

from bert_tf.layers import dropout
from bert_tf.tensor import Tensor


class LastLayer:
  """The positions at which it is computed.

  Args:
    input_ids: int [B, F].
    pooled: int [B, K]. Where each input is pooled; None for its first position.
    positions: int [B, P]. Where its output is needed besides; None for all.

  Attributes:
    rows: those of the layer's input, [B*F, D], that it computes; numbers int32
      [B, K + P]. None for all.
  """

  def __init__(
    self, input_ids: Tensor, pooled: Tensor | None, positions: Tensor | None
  ) -> None:
    self.rows: dropout.Rows | None = None
    self._pooled = pooled
    batch_size, length = ops.shape(input_ids)
    self._num_positions = length
    if positions is None:
      return
    if pooled is None:
      # A slice of a row of unknown length would have one of unknown length.
      pooled = ops.expand_dims(ops.zeros_like(input_ids[:, 0]), -1)
    both = [ops.cast(one, "int32") for one in (pooled, positions)]
    chosen = ops.concatenate(both, axis=1)
    starts = ops.arange(batch_size, dtype="int32") * length
    self.rows = dropout.Rows(chosen + starts[:, None], batch_size * length)
    self._num_pooled = ops.shape(pooled)[1]
    self._num_positions = ops.shape(chosen)[1]

  def outputs(self, computed: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the layer's output where it is pooled, and where it is needed.

    Args:
      computed: float [rows, D].

    Returns:
      Float [B, K, D], and [B, P, D], or [B, F, D] of all positions.
    """
    shape = (-1, self._num_positions, computed.shape[-1])
    output = ops.reshape(computed, shape)
    if self.rows:
      return output[:, : self._num_pooled], output[:, self._num_pooled :]
    if self._pooled is None:
      return output[:, :1], output
    at = ops.expand_dims(self._pooled, -1)
    return ops.take_along_axis(output, at, axis=1), output


def taken(values: Tensor, rows: dropout.Rows) -> Tensor:
  """Returns [B*Q, ...]: those of [rows.count, ...] that [B, Q] numbers name."""
  return ops.take(values, ops.reshape(rows.numbers, (-1,)), axis=0)


def of_heads(
  rows: dropout.Rows | None, num_heads: int, length: Tensor | int
) -> dropout.Rows | None:
  """Returns rows of [B, N, length, T] from those of [B * length, D]."""
  if rows is None:
    return None
  # Row f of example b is row f of each of its heads, b * N + n.
  batch_size = ops.shape(rows.numbers)[0]
  examples = ops.reshape(ops.arange(batch_size, dtype="int32"), (-1, 1, 1))
  heads = ops.reshape(ops.arange(num_heads, dtype="int32"), (1, -1, 1))
  moved = (examples * (num_heads - 1) + heads) * length  # [B, N, 1]
  numbers = ops.expand_dims(rows.numbers, 1) + moved
  return dropout.Rows(numbers, rows.count * num_heads)
