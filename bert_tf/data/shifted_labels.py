"""What a language model predicts that reads from one side: the next piece.

From left to right a position predicts the piece after it, from right to left
the one before it. Every piece of an instance is predicted but the one that
reading begins with: from left to right all but [CLS], its end, [SEP], too; from
right to left all but the last [SEP], and its end is then [CLS].
"""

import tensorflow as tf

Features = dict[str, tf.Tensor]


def add(features: Features, is_reversed: bool = False) -> Features:
  """Returns a batch with what each of its positions predicts.

  Args:
    features: `input_ids` and `input_mask`, int32 [B, F]; `cls_positions`, int32
      [B, K], if rows hold several instances, as BertModel takes them; and
      others.
    is_reversed: whether pieces are predicted from right to left.

  Returns:
    The features with `masked_lm_positions` and `masked_lm_ids`, int32 [B, F -
    1], and `masked_lm_weights`, float32 [B, F - 1], all 0 where there is no
    next piece in the instance. The names are those that the head's loss takes.
  """
  ids, is_real = features["input_ids"], features["input_mask"] > 0
  # Neighbours in a row: those at 0 and 1, at 1 and 2, and so on.
  are_both = is_real[:, :-1] & is_real[:, 1:]
  places = tf.range(tf.shape(ids)[1] - 1)
  if "cls_positions" in features:
    later_starts = features["cls_positions"][:, None, 1:]  # 0 for none.
    begins = tf.equal(later_starts, 1 + places[:, None])  # [B, F - 1, K - 1]
    are_both &= ~tf.reduce_any(begins, axis=-1)
  positions, labels = places, ids[:, 1:]
  if is_reversed:
    positions, labels = places + 1, ids[:, :-1]
  return {
    **features,
    "masked_lm_positions": tf.where(are_both, positions, 0),
    "masked_lm_ids": tf.where(are_both, labels, 0),
    "masked_lm_weights": tf.cast(are_both, tf.float32),
  }
