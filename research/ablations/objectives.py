"""Left-to-right and right-to-left language models (Devlin et al. 2019, 5.1).

Every piece that they predict counts as a masked one, so that results have the
names of those of the masked LM.
"""

import dataclasses

import tensorflow as tf

from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.data.pretraining import dynamic_masking, pretraining_records
from bert_tf.tasks.pretraining import pretraining_config


def label(
  config: pretraining_config.PretrainingConfig,
  model: ModelFolder,
  records: pretraining_records.PretrainingRecords,
) -> pretraining_records.PretrainingRecords:
  """Returns unmasked records with the labels of the config's direction."""
  records.check(model.config.vocab_size)
  direction = model.config.attention_direction
  is_reversed = direction == "right_to_left"
  return dataclasses.replace(
    records, mask=lambda features, *_: add_labels(features, is_reversed)
  )


def add_labels(
  features: dynamic_masking.Features, is_reversed: bool
) -> dynamic_masking.Features:
  """Labels each position with the next piece, or with the previous one.

  From left to right, each position predicts the next piece of its instance, so
  [CLS] is never predicted. From right to left, each position predicts the
  previous piece, so the last [SEP] is never predicted.

  Args:
    features: `input_ids` and `input_mask`, int32 [B, F]. Packed sequences also
      have `cls_positions`, int32 [B, K]. Other features are passed on.
    is_reversed: whether to predict from right to left.

  Returns:
    The features and the labels, under the names that the head's loss expects.
    All are 0 at positions without a piece to predict in their instance:
      masked_lm_positions, masked_lm_ids: int32 [B, F - 1].
      masked_lm_weights: float32 [B, F - 1].
  """
  ids, is_real = features["input_ids"], features["input_mask"] > 0
  # Pairs of neighbours: positions 0 and 1, 1 and 2, and so on.
  is_label = is_real[:, :-1] & is_real[:, 1:]
  places = tf.range(tf.shape(ids)[1] - 1)
  if "cls_positions" in features:
    later_starts = features["cls_positions"][:, None, 1:]  # 0 if unused.
    begins = tf.equal(later_starts, 1 + places[:, None])  # [B, F - 1, K - 1]
    is_label &= ~tf.reduce_any(begins, axis=-1)
  positions, labels = places, ids[:, 1:]
  if is_reversed:
    positions, labels = places + 1, ids[:, :-1]
  return {
    **features,
    "masked_lm_positions": tf.where(is_label, positions, 0),
    "masked_lm_ids": tf.where(is_label, labels, 0),
    "masked_lm_weights": tf.cast(is_label, tf.float32),
  }
