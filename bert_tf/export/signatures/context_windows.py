"""Cuts contexts of SQuAD into windows, as TensorFlow ops.

The windows are the same as those of tasks/squad/windows.py.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor
from bert_tf.tasks.squad import config as squad_config

# White space of SQuAD, as in tasks/squad/examples.py.
WHITE_SPACE = "[ \t\r\n\u202f]+"


class Pieces(NamedTuple):
  """The word pieces of a context; all fields except `chars` are [pieces]."""

  ids: Tensor  # int32. Ids of the pieces.
  starts: Tensor  # int64. First byte of each piece in the context.
  ends: Tensor  # int64. Byte after each piece.
  word_starts: Tensor  # int64. First byte of the word of each piece.
  word_ends: Tensor  # int64. Byte after the word of each piece.
  # int32. Characters of all words up to and including the piece's word, minus
  # characters of their pieces. Changes if the tokenizer drops or adds some.
  surplus: Tensor
  surplus_before: Tensor  # int32. The same, excluding the piece's word.
  first_chars: Tensor  # int32. Index of the piece's first character in `chars`.
  # int32. Characters of the word before this piece; 0 in a word with [UNK].
  offsets: Tensor
  num_chars: Tensor  # int32. Characters of the piece.
  unknown: Tensor  # int32. Number of [UNK] up to and including this piece.
  unknown_before: Tensor  # int32. Number of [UNK] before this piece.
  chars: Tensor  # int32 [characters]. Code points of all pieces, in order.


class Windows(NamedTuple):
  """The windows of a context."""

  inputs: dict[str, Tensor]  # int32 [W, F] each. Inputs of the model.
  pieces: Tensor  # int32 [W, F]. Index of the context's piece at each position.
  # bool [W, F]. Whether the position has a piece; else `pieces` is arbitrary.
  is_piece: Tensor
  # bool [W, F]. Whether this window has the most context around the piece.
  is_max_context: Tensor


class Windower:
  """Cuts a context into windows."""

  def __init__(
    self,
    tokenizer: bert_tokenizer.BertTokenizer,
    config: squad_config.WindowConfig,
  ) -> None:
    self._tokenizer = tokenizer
    self._config = config
    self._cls, self._sep, self._unknown = (
      tokenizer.vocab[token] for token in ("[CLS]", "[SEP]", "[UNK]")
    )
    # The text of each piece, and its number of characters.
    texts = [token.removeprefix("##") for token in tokenizer.vocab]
    self._texts = tf.constant(texts, tf.string)
    self._num_chars = tf.constant([len(text) for text in texts], tf.int32)

  def pieces(self, context: Tensor) -> Pieces:
    """Returns the word pieces of a context, string []."""
    import tensorflow_text

    words, word_starts, word_ends = tensorflow_text.regex_split_with_offsets(
      context[None], WHITE_SPACE
    )
    words, word_starts, word_ends = (
      x[0] for x in (words, word_starts, word_ends)
    )
    ids, starts, ends = self._tokenizer.tokenize_with_offsets(words)
    word_of = ids.value_rowids()
    word_starts = tf.gather(word_starts, word_of)
    ids, starts, ends = ids.values, starts.values, ends.values
    starts, ends = starts + word_starts, ends + word_starts
    is_unknown = tf.equal(ids, self._unknown)
    num_chars = tf.where(
      is_unknown,
      characters(context, ends) - characters(context, starts),
      tf.gather(self._num_chars, ids),
    )
    surplus = tf.strings.length(
      words, "UTF8_CHAR"
    ) - tf.math.unsorted_segment_sum(num_chars, word_of, tf.size(words))
    chars = tf.strings.unicode_decode(tf.gather(self._texts, ids), "UTF-8")
    return Pieces(
      ids,
      starts,
      ends,
      word_starts,
      tf.gather(word_ends, word_of),
      tf.gather(tf.cumsum(surplus), word_of),
      tf.gather(tf.cumsum(surplus, exclusive=True), word_of),
      tf.cast(chars.row_starts(), tf.int32),
      self._offsets(ids, num_chars, word_of),
      num_chars,
      tf.cumsum(tf.cast(is_unknown, tf.int32)),
      tf.cumsum(tf.cast(is_unknown, tf.int32), exclusive=True),
      chars.values,
    )

  def _offsets(self, ids: Tensor, num_chars: Tensor, word_of: Tensor) -> Tensor:
    num_words = tf.reduce_max(tf.concat([word_of, [-1]], axis=0)) + 1
    before = tf.cumsum(num_chars, exclusive=True)
    firsts = tf.math.unsorted_segment_min(before, word_of, num_words)
    is_unknown = tf.cast(tf.equal(ids, self._unknown), tf.int32)
    unknown = tf.math.unsorted_segment_sum(is_unknown, word_of, num_words)
    offsets = before - tf.gather(firsts, word_of)
    return tf.where(tf.gather(unknown, word_of) > 0, 0, offsets)

  def cut(self, question: Tensor, pieces: Pieces) -> Windows:
    """Returns the windows of a context, each preceded by the question."""
    config = self._config
    query = self._tokenizer.tokenize(question[None])[0]
    query = query[: config.max_query_length]
    prefix = tf.concat([[self._cls], query, [self._sep]], axis=0)
    offset = tf.size(prefix)
    num_pieces = tf.size(pieces.ids)
    length = config.max_seq_length - offset - 1
    firsts = _first_pieces(num_pieces, length, config.doc_stride)[:, None]
    ends = tf.minimum(firsts + length, num_pieces)
    positions = tf.range(config.max_seq_length)[None, :]
    indices = firsts + positions - offset  # [W, F]
    is_piece = (positions >= offset) & (indices < ends)
    indices = tf.clip_by_value(indices, 0, tf.maximum(num_pieces - 1, 0))
    prefix = tf.pad(prefix, [[0, config.max_seq_length - offset]])
    is_last = tf.equal(positions, ends - firsts + offset)
    after = tf.where(
      is_last, self._sep, tf.where(positions < offset, prefix, 0)
    )
    is_real = is_last | is_piece | (positions < offset)
    inputs = {
      "input_ids": tf.where(is_piece, tf.gather(pieces.ids, indices), after),
      "input_mask": tf.cast(is_real, tf.int32),
      "segment_ids": tf.cast(is_real & (positions >= offset), tf.int32),
    }
    is_max_context = _has_max_context(
      indices, is_piece, firsts, ends, num_pieces
    )
    return Windows(inputs, indices, is_piece, is_max_context)


def characters(text: Tensor, byte_offsets: Tensor) -> Tensor:
  """Converts byte offsets, int64 [n], to character offsets, int32 [n]."""
  offsets = tf.RaggedTensor.from_tensor(byte_offsets[None])
  offsets = bert_tokenizer.character_offsets(text[None], offsets)
  return tf.cast(offsets.values, tf.int32)


def _first_pieces(num_pieces: Tensor, length: Tensor, stride: int) -> Tensor:
  """Returns the index of the first piece of each window, int32 [W]."""
  beyond = tf.maximum(num_pieces - length, 0)
  count = tf.where(num_pieces > 0, 1 + (beyond + stride - 1) // stride, 0)
  return tf.range(count) * stride


def _has_max_context(
  pieces: Tensor,
  is_piece: Tensor,
  firsts: Tensor,
  ends: Tensor,
  num_pieces: Tensor,
) -> Tensor:
  """Returns bool [W, F]: whether the window has the most context of the piece.

  A window's score for a piece is the number of pieces to its left or right,
  whichever is smaller, plus 0.01 times the number of pieces in the window. The
  first of equal scores wins.

  `pieces` and `is_piece` are as in Windows. `firsts` and `ends`, int32 [W, 1],
  are the first piece of each window and the one after it.
  """
  shorter = tf.cast(tf.minimum(pieces - firsts, ends - 1 - pieces), tf.float64)
  # In float64, as in the original, because rounding could change the winner.
  scores = shorter + 0.01 * tf.cast(ends - firsts, tf.float64)
  scores = tf.where(is_piece, scores, tf.constant(-1.0, tf.float64))
  best = tf.math.unsorted_segment_max(scores, pieces, num_pieces)
  is_best = is_piece & tf.equal(scores, tf.gather(best, pieces))
  num_windows = tf.size(firsts)
  numbers = tf.range(num_windows)[:, None]
  first_best = tf.math.unsorted_segment_min(
    tf.where(is_best, numbers, num_windows), pieces, num_pieces
  )
  return is_best & tf.equal(tf.gather(first_best, pieces), numbers)
