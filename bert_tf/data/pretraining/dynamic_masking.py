"""Dynamic masking: masks batches of unmasked records while they are read.

It draws a new mask in each epoch and needs no duplicates of the text (Liu et
al. 2019, RoBERTa, section 4.1). The rules are those of `masking`. The mask of a
record is a function of the seed, the epoch and the record's index in the epoch,
so it does not depend on the batch size or on the step of a resumed run.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data.pretraining import masking
from bert_tf.model.kernels import hashing

Features = dict[str, tf.Tensor]

# What a word piece is for masking.
_NEVER_MASKED, _BEGINS_WORD, _CONTINUES_WORD = range(3)


class DynamicMasker:
  """Masks batches of unmasked records.

  The vocabulary has the special tokens, and its ids are 0 to V - 1 in order.
  """

  def __init__(
    self, config: masking.MaskingConfig, vocab: Mapping[str, int], seed: int
  ) -> None:
    self._config = config
    self._seed = seed
    self._cls_id = vocab[tokenization.CLS]
    self._mask_id = vocab[tokenization.MASK]
    piece_types = [
      _CONTINUES_WORD if token.startswith("##") else _BEGINS_WORD
      for token in vocab
    ]
    for token in (tokenization.CLS, tokenization.SEP):
      piece_types[vocab[token]] = _NEVER_MASKED
    self._piece_types = np.array(piece_types, np.int32)

  def mask(
    self, features: Features, epoch: tf.Tensor, indices: tf.Tensor
  ) -> Features:
    """Returns a batch with masked words and the labels of the masked LM.

    Args:
      features: `input_ids` and `input_mask`, int32 [B, F]. Packed sequences
        also have `cls_positions`, int32 [B, K]. Other features are passed on.
      epoch: int64 [B]. The epoch of each record; 0 in evaluation.
      indices: int64 [B]. The index of each record in the order of its epoch.

    Returns:
      The features with masked `input_ids`, and `masked_lm_positions`,
      `masked_lm_ids` and `masked_lm_weights`, [B, P], where P is the largest
      number of masked pieces in a row of length F.
    """
    config, ids = self._config, features["input_ids"]
    length = ids.shape[1]
    seeds = tf.stack([self._seed + tf.zeros_like(epoch), epoch, indices], 1)
    draws = tf.cast(hashing.bits(seeds, 3 * length), tf.int64)
    word_draws, action_draws, id_draws = tf.unstack(
      tf.reshape(draws, [-1, 3, length]), axis=1
    )
    piece_types = tf.gather(self._piece_types, ids)
    can_be_masked = (piece_types != _NEVER_MASKED) & (
      features["input_mask"] > 0
    )
    begins = can_be_masked
    if config.do_whole_word_mask:
      before = tf.pad(ids, [[0, 0], [1, 0]])[:, :-1]
      begins &= (piece_types == _BEGINS_WORD) | (before == self._cls_id)
    # The index of each piece's word; -1 for a piece that is never masked.
    words = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1
    words = tf.where(can_be_masked, words, -1)
    # The index of each position's instance in its row, int32 [B, F].
    starts = features.get("cls_positions", tf.zeros_like(ids[:, :1]))
    later = starts[:, None, 1:]  # [B, 1, K - 1]. 0 for unused entries.
    has_begun = (later > 0) & (later <= tf.range(length)[:, None])
    instances = tf.reduce_sum(tf.cast(has_begun, tf.int32), axis=-1)
    sizes = _sum_by_group(tf.ones_like(words), words, length)
    # The instance of each word is the mean over its pieces, which all agree.
    totals = _sum_by_group(instances, words, length)
    instances_of_words = totals // tf.maximum(sizes, 1)
    # Orders words by instance, and at random within each instance.
    keys = tf.cast(instances_of_words, tf.int64) * 2**32 + word_draws
    order = tf.argsort(keys, axis=1)
    lengths = _sum_by_group(features["input_mask"], instances, starts.shape[1])
    limits = [config.num_to_predict(n) for n in range(length + 1)]
    is_taken = _select_fitting(
      tf.gather(sizes, order, batch_dims=1),
      tf.gather(instances_of_words, order, batch_dims=1),
      tf.gather(np.array(limits, np.int32), lengths),
    )
    # Maps the choice from the drawn order back to words, then to their pieces.
    is_taken = _sum_by_group(tf.cast(is_taken, tf.int32), order, length)
    is_chosen = tf.gather(is_taken, tf.maximum(words, 0), batch_dims=1) > 0
    is_chosen &= words >= 0

    random_ids = tf.cast(id_draws * len(self._piece_types) // 2**32, ids.dtype)
    is_kept = action_draws < round(
      (config.mask_prob + config.keep_prob) * 2**32
    )
    is_mask = action_draws < round(config.mask_prob * 2**32)
    replaced = tf.where(is_kept, ids, random_ids)
    replaced = tf.where(is_mask, self._mask_id, replaced)

    count = config.num_to_predict_in_row(length, starts.shape[1])
    positions = tf.where(is_chosen, tf.range(length), length)
    positions = tf.sort(positions, axis=1)[:, :count]
    is_real = positions < length
    positions = tf.where(is_real, positions, 0)
    labels = tf.gather(ids, positions, batch_dims=1)
    return {
      **features,
      "input_ids": tf.where(is_chosen, replaced, ids),
      "masked_lm_positions": positions,
      "masked_lm_ids": tf.where(is_real, labels, 0),
      "masked_lm_weights": tf.cast(is_real, tf.float32),
    }


def _select_fitting(
  sizes: tf.Tensor, instances: tf.Tensor, limits: tf.Tensor
) -> tf.Tensor:
  """Takes words in order, each that still fits; returns bool [B, W].

  In each instance, a round takes all words up to the first one that does not
  fit. The next round excludes words that are longer than the remaining room.
  `sizes`, int32 [B, W], is the number of pieces of each word, 0 for padding.
  `instances`, int32 [B, W], is its instance, ascending. `limits`, int32 [B, K],
  is the largest number of pieces per instance.
  """

  def gather_to_words(values: tf.Tensor) -> tf.Tensor:
    return tf.gather(values, instances, batch_dims=1)

  def num_pieces(is_taken: tf.Tensor) -> tf.Tensor:
    counted = tf.where(is_taken, sizes, 0)
    return _sum_by_group(counted, instances, limits.shape[1])

  def room(is_taken: tf.Tensor) -> tf.Tensor:
    return gather_to_words(limits - num_pieces(is_taken))

  def can_fit(is_taken: tf.Tensor) -> tf.Tensor:
    return (sizes > 0) & ~is_taken & (sizes <= room(is_taken))

  def take(is_taken: tf.Tensor, is_open: tf.Tensor) -> tuple[tf.Tensor, ...]:
    total = tf.cumsum(tf.where(is_open, sizes, 0), axis=1)
    before = tf.cumsum(num_pieces(is_open), axis=1, exclusive=True)
    is_taken |= is_open & (total - gather_to_words(before) <= room(is_taken))
    return is_taken, can_fit(is_taken)

  no_words = tf.zeros_like(sizes, tf.bool)
  is_taken, _ = tf.while_loop(
    lambda _, is_open: tf.reduce_any(is_open),
    take,
    (no_words, can_fit(no_words)),
  )
  return is_taken


def _sum_by_group(values: tf.Tensor, groups: tf.Tensor, size: int) -> tf.Tensor:
  """Sums values, [B, N], by groups, int32 [B, N]; returns [B, size].

  Values of negative groups are ignored.
  """
  num_rows = tf.shape(groups)[0]
  starts = tf.range(num_rows)[:, None] * size
  flat = tf.where(groups < 0, -1, starts + groups)
  sums = tf.math.unsorted_segment_sum(
    tf.reshape(values, [-1]), tf.reshape(flat, [-1]), num_rows * size
  )
  return tf.reshape(sums, [-1, size])
