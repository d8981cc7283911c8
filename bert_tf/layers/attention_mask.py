"""Which positions attend to which, and which one speaks for an input.

Shapes: B batch, F from (query) positions, T to (key) positions, K inputs that
share a row.
"""

from keras import ops

from bert_tf.tensor import Tensor

# What a position attends to: every position of its input (BERT), itself and
# those before it, or itself and those after it.
BOTH = "both"
LEFT_TO_RIGHT = "left_to_right"
RIGHT_TO_LEFT = "right_to_left"
DIRECTIONS = (BOTH, LEFT_TO_RIGHT, RIGHT_TO_LEFT)


def check_direction(direction: object) -> None:
  """Raises ValueError for what is none of DIRECTIONS."""
  if direction not in DIRECTIONS:
    raise ValueError(
      f"attention_direction is {direction!r:.80}; it has to be one of "
      f"{', '.join(DIRECTIONS)}."
    )


def starts(cls_positions: Tensor, length: Tensor | int) -> Tensor:
  """Returns where the input of each position begins, int [B, F].

  `cls_positions` are those of BertModel, int [B, K]; `length` is F.
  """
  begins = cls_positions[:, None, :]  # [B, 1, K]
  positions = ops.arange(length, dtype=cls_positions.dtype)[None, :, None]
  # What is no input has 0 and does not change the largest.
  has_begun = ops.cast(begins <= positions, cls_positions.dtype)
  return ops.max(begins * has_begun, axis=-1)


def keys(input_mask: Tensor, starts: Tensor | None, direction: str) -> Tensor:
  """Returns 1 for each key that a position attends to, 0 for the others.

  Args:
    input_mask: [B, T]. 1 for a real position.
    starts: int [B, F], as `starts` returns them; None if rows hold one input.
    direction: one of DIRECTIONS.

  Returns:
    float32 [B, F, T], or [B, 1, T] where it is the same for all positions.
  """
  is_key = ops.expand_dims(ops.cast(input_mask, "float32"), 1)  # [B, 1, T]
  if starts is not None:
    is_same = ops.equal(starts[:, :, None], starts[:, None, :])
    is_key = is_key * ops.cast(is_same, "float32")  # [B, F, T]
  if direction == BOTH:
    return is_key
  positions = ops.arange(ops.shape(input_mask)[1])
  query, key = positions[:, None], positions[None, :]
  is_seen = key <= query if direction == LEFT_TO_RIGHT else key >= query
  return is_key * ops.cast(is_seen, "float32")  # [B, F, T]


def last_positions(
  input_mask: Tensor, starts: Tensor | None, cls_positions: Tensor | None
) -> Tensor:
  """Returns the last real position of each input, int32 [B, K]; 0 for none.

  Args:
    input_mask: [B, F]. 1 for a real position.
    starts: int [B, F], as `starts` returns them; None if rows hold one input.
    cls_positions: int [B, K], those of BertModel; None likewise, K is then 1.
  """
  positions = ops.arange(ops.shape(input_mask)[1], dtype="int32")
  is_own = ops.cast(input_mask, "float32")[:, None, :] > 0  # [B, 1, F]
  if starts is not None and cls_positions is not None:
    is_same = ops.equal(starts[:, None, :], cls_positions[:, :, None])
    is_own = ops.logical_and(is_own, is_same)  # [B, K, F]
  return ops.max(positions * ops.cast(is_own, "int32"), axis=-1)
