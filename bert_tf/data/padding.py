"""Dynamic padding: cuts the padding that no example of a batch needs."""

import math
from collections.abc import Sequence

import tensorflow as tf

# Widths in eighths of max_seq_length. They are few, since XLA compiles each,
# and each is at most 3/2 of the one before, which bounds the padding.
_WIDTHS_IN_EIGHTHS = (2, 3, 4, 5, 6, 8)
_WIDTH_MULTIPLE = 8


def list_widths(max_seq_length: int) -> tuple[int, ...]:
  """Returns the widths for XLA: 32, 48, 64, 80, 96 and 128 for 128."""
  parts = (eighths * max_seq_length / 8 for eighths in _WIDTHS_IN_EIGHTHS)
  rounded = (math.ceil(p / _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE for p in parts)
  return tuple(sorted({min(width, max_seq_length) for width in rounded}))


def cut_padding(
  batches: tf.data.Dataset,
  max_seq_length: int,
  more: Sequence[str] = (),
  has_few_widths: bool = False,
) -> tf.data.Dataset:
  """Cuts every batch to the length of its longest example.

  Args:
    batches: features `input_ids`, `input_mask` and `segment_ids`, int [B, F]
      or [B, C, F].
    max_seq_length: F.
    more: names of further features of shape [B, F, ...] to cut.
    has_few_widths: whether to round the length up to one of `list_widths`.
  """
  all_widths = range(1, max_seq_length + 1)
  allowed = tf.constant(
    list_widths(max_seq_length) if has_few_widths else all_widths
  )

  @tf.autograph.experimental.do_not_convert
  def cut(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    mask = tf.reshape(features["input_mask"], [-1, max_seq_length])
    is_used = tf.reduce_any(mask > 0, axis=0)  # [F]
    positions = tf.range(1, max_seq_length + 1)
    length = tf.reduce_max(tf.where(is_used, positions, 0))
    width = allowed[tf.searchsorted(allowed, [length])[0]]
    cut_features = {
      name: features[name][..., :width]
      for name in ("input_ids", "input_mask", "segment_ids")
    }
    cut_features |= {name: features[name][:, :width] for name in more}
    return {**features, **cut_features}

  return batches.map(cut)
