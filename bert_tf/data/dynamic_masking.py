"""Masks batches of unmasked records while they are read.

What is masked follows the rules of `masking`, and is a function of the seed,
the epoch and the record's place in it, so that it depends neither on batches
nor on where a run was resumed.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import tokenization
from bert_tf.data import masking
from bert_tf.kernels import hashing

Features = dict[str, tf.Tensor]

# What a word piece is to the masking.
_NEVER_MASKED, _BEGINS_WORD, _CONTINUES_WORD = range(3)


class DynamicMasker:
  """Masks batches of one vocabulary, whose ids are 0 to V - 1 in order.

  The vocabulary has [CLS], [SEP] and [MASK].
  """

  def __init__(
    self, config: masking.MaskingConfig, vocab: Mapping[str, int], seed: int
  ) -> None:
    self._config = config
    self._seed = seed
    self._cls_id = vocab[tokenization.CLS]
    self._mask_id = vocab[tokenization.MASK]
    kinds = [
      _CONTINUES_WORD if token.startswith("##") else _BEGINS_WORD
      for token in vocab
    ]
    for token in (tokenization.CLS, tokenization.SEP):
      kinds[vocab[token]] = _NEVER_MASKED
    self._kinds = np.array(kinds, np.int32)

  def mask(
    self, features: Features, epoch: tf.Tensor, places: tf.Tensor
  ) -> Features:
    """Returns a batch with masked words and what to predict there.

    Args:
      features: `input_ids` and `input_mask`, int32 [B, F]; `cls_positions`,
        int32 [B, K], if rows hold several instances, as BertModel takes them;
        and others.
      epoch: int64 [B]. The epoch that each record is read in, 0 for evaluation.
      places: int64 [B]. The place of each record in the order of its epoch.

    Returns:
      The features with other `input_ids`; `masked_lm_positions` and
      `masked_lm_ids`, int32 [B, P], ascending, and `masked_lm_weights`, float32
      [B, P], where P is what a row of length F has at most.
    """
    ids = features["input_ids"]
    length = ids.shape[1]
    seeds = tf.stack([self._seed + tf.zeros_like(epoch), epoch, places], 1)
    draws = tf.cast(hashing.bits(seeds, 3 * length), tf.int64)
    draws = tf.reshape(draws, [-1, 3, length])
    words = self._words(ids, features["input_mask"])
    starts = features.get("cls_positions", tf.zeros_like(ids[:, :1]))
    chosen = self._chosen(words, features["input_mask"], starts, draws[:, 0])
    replaced = self._replacements(ids, draws[:, 1], draws[:, 2])
    return {
      **features,
      **self._labels(ids, chosen, starts.shape[1]),
      "input_ids": tf.where(chosen, replaced, ids),
    }

  def _words(self, ids: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Returns the number of the word of each piece, -1 if it is never masked.

    Without whole-word masking each piece is a word. Otherwise the first piece
    after [CLS] begins one in any case; a later segment that was cut inside a
    word goes on with the word before it, as in `masking`.
    """
    kinds = tf.gather(self._kinds, ids)
    can_be_masked = (kinds != _NEVER_MASKED) & (input_mask > 0)
    begins = can_be_masked
    if self._config.do_whole_word_mask:
      before = tf.pad(ids, [[0, 0], [1, 0]])[:, :-1]
      begins &= (kinds == _BEGINS_WORD) | (before == self._cls_id)
    numbers = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1
    return tf.where(can_be_masked, numbers, -1)

  def _chosen(
    self,
    words: tf.Tensor,
    input_mask: tf.Tensor,
    starts: tf.Tensor,
    draws: tf.Tensor,
  ) -> tf.Tensor:
    """Returns which pieces to predict, bool [B, F].

    `starts`, int32 [B, K], is where the instances of a row begin; `draws` order
    the words of each.
    """
    length = words.shape[1]
    instances = _instances(starts, length)
    sizes = _sums(tf.ones_like(words), words, length)
    # The instance of each word, by the mean of its pieces.
    instances_of_words = _sums(instances, words, length) // tf.maximum(sizes, 1)
    order = tf.argsort(
      tf.cast(instances_of_words, tf.int64) * 2**32 + draws, axis=1
    )
    lengths = _sums(input_mask, instances, starts.shape[1])
    is_taken = _fitting(
      tf.gather(sizes, order, batch_dims=1),
      tf.gather(instances_of_words, order, batch_dims=1),
      tf.gather(self._limits(length), lengths),
    )
    # Back from the drawn order to that of the words, then to that of pieces.
    is_taken = _sums(tf.cast(is_taken, tf.int32), order, length)
    found = tf.gather(is_taken, tf.maximum(words, 0), batch_dims=1)
    return (found > 0) & (words >= 0)

  def _limits(self, length: int) -> np.ndarray:
    """Returns how many pieces to predict by the length of the input."""
    counts = [self._config.num_to_predict(n) for n in range(length + 1)]
    return np.array(counts, np.int32)

  def _replacements(
    self, ids: tf.Tensor, kind_draws: tf.Tensor, word_draws: tf.Tensor
  ) -> tf.Tensor:
    """Returns what each piece becomes if it is chosen, int32 [B, F]."""
    mask_prob, keep_prob = self._config.mask_prob, self._config.keep_prob
    random_ids = word_draws * len(self._kinds) // 2**32
    kept = tf.where(
      kind_draws < round((mask_prob + keep_prob) * 2**32),
      ids,
      tf.cast(random_ids, ids.dtype),
    )
    return tf.where(kind_draws < round(mask_prob * 2**32), self._mask_id, kept)

  def _labels(
    self, ids: tf.Tensor, chosen: tf.Tensor, max_instances: int
  ) -> Features:
    """Returns positions, ids and weights of the chosen pieces, [B, P]."""
    length = ids.shape[1]
    count = self._config.num_to_predict_in_row(length, max_instances)
    positions = tf.where(chosen, tf.range(length), length)
    positions = tf.sort(positions, axis=1)[:, :count]
    is_real = positions < length
    positions = tf.where(is_real, positions, 0)
    labels = tf.gather(ids, positions, batch_dims=1)
    return {
      "masked_lm_positions": positions,
      "masked_lm_ids": tf.where(is_real, labels, 0),
      "masked_lm_weights": tf.cast(is_real, tf.float32),
    }


def _instances(starts: tf.Tensor, length: int) -> tf.Tensor:
  """Returns the instance of each position, 0 to K - 1, int32 [B, F]."""
  later = starts[:, None, 1:]  # [B, 1, K - 1]. 0 for none.
  has_begun = (later > 0) & (later <= tf.range(length)[:, None])
  return tf.reduce_sum(tf.cast(has_begun, tf.int32), axis=-1)


def _fitting(
  sizes: tf.Tensor, instances: tf.Tensor, limits: tf.Tensor
) -> tf.Tensor:
  """Returns which words to take, in order, skipping words over the limit.

  Each round takes all words up to the first that does not fit any more; the
  next one leaves out what cannot fit any more.

  Args:
    sizes: int32 [B, W]. The words' pieces, 0 for no word.
    instances: int32 [B, W]. The words' instances, ascending but for words of
      size 0, which have instance 0.
    limits: int32 [B, K]. The most pieces of each instance to take.
  """

  def of_words(numbers: tf.Tensor) -> tf.Tensor:
    return tf.gather(numbers, instances, batch_dims=1)

  def pieces(is_taken: tf.Tensor) -> tf.Tensor:
    taken = tf.where(is_taken, sizes, 0)
    return _sums(taken, instances, limits.shape[1])

  def left(is_taken: tf.Tensor) -> tf.Tensor:
    return of_words(limits - pieces(is_taken))

  def can_fit(is_taken: tf.Tensor) -> tf.Tensor:
    return (sizes > 0) & ~is_taken & (sizes <= left(is_taken))

  def take(is_taken: tf.Tensor, is_open: tf.Tensor) -> tuple[tf.Tensor, ...]:
    total = tf.cumsum(tf.where(is_open, sizes, 0), axis=1)
    before = tf.cumsum(pieces(is_open), axis=1, exclusive=True)
    is_taken |= is_open & (total - of_words(before) <= left(is_taken))
    return is_taken, can_fit(is_taken)

  nothing = tf.zeros_like(sizes, tf.bool)
  found, _ = tf.while_loop(
    lambda _, is_open: tf.reduce_any(is_open),
    take,
    (nothing, can_fit(nothing)),
  )
  return found


def _sums(values: tf.Tensor, groups: tf.Tensor, size: int) -> tf.Tensor:
  """Returns the sums of values by group, [B, size], of each row.

  Args:
    values: [B, N].
    groups: int32 [B, N], below size; negative ones are left out.
    size: number of groups.
  """
  num_rows = tf.shape(groups)[0]
  starts = tf.range(num_rows)[:, None] * size
  flat = tf.where(groups < 0, -1, starts + groups)
  sums = tf.math.unsorted_segment_sum(
    tf.reshape(values, [-1]), tf.reshape(flat, [-1]), num_rows * size
  )
  return tf.reshape(sums, [-1, size])
