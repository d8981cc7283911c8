"""Cuts the padding that no example of a batch needs."""

import math
from collections.abc import Sequence

import tensorflow as tf

# The few widths of dynamic padding in eighths of max_seq_length. XLA compiles a
# program for each, so there are few; each is at most 3/2 of the one before.
_WIDTHS_IN_EIGHTHS = (2, 3, 4, 5, 6, 8)
_WIDTH_MULTIPLE = 8


def widths(max_seq_length: int) -> tuple[int, ...]:
  """Returns the few widths of dynamic padding, ascending.

  They are at most 5 multiples of 8 and max_seq_length: 32, 48, 64, 80, 96 and
  128 for 128.
  """
  parts = (eighths * max_seq_length / 8 for eighths in _WIDTHS_IN_EIGHTHS)
  rounded = (math.ceil(p / _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE for p in parts)
  return tuple(sorted({min(width, max_seq_length) for width in rounded}))


def cut_padding(
  batches: tf.data.Dataset,
  max_seq_length: int,
  more: Sequence[str] = (),
  has_few_widths: bool = False,
) -> tf.data.Dataset:
  """Cuts every batch to its longest example.

  Only padding is cut, so the model's outputs at the real positions are the same
  up to rounding.

  Args:
    batches: with `input_ids`, `input_mask` and `segment_ids`, int [B, F] or [B,
      C, F].
    max_seq_length: F.
    more: other features of [B, F] to cut.
    has_few_widths: whether it is the least of `widths` that holds it.
  """
  every = range(1, max_seq_length + 1)
  steps = tf.constant(widths(max_seq_length) if has_few_widths else every)

  @tf.autograph.experimental.do_not_convert
  def cut(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    mask = tf.reshape(features["input_mask"], [-1, max_seq_length])
    is_used = tf.reduce_any(mask > 0, axis=0)  # [F]
    positions = tf.range(1, max_seq_length + 1)
    length = tf.reduce_max(tf.where(is_used, positions, 0))
    width = steps[tf.searchsorted(steps, [length])[0]]
    cut_features = {
      name: features[name][..., :width]
      for name in ("input_ids", "input_mask", "segment_ids", *more)
    }
    return {**features, **cut_features}

  return batches.map(cut)
