"""Windows of SQuAD's contexts in the graph; see tasks/squad/windows.py."""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from bert_tf.export.text_ops import bert_tokenizer
from bert_tf.modeling import Tensor
from bert_tf.tasks.squad import windows

# White space to SQuAD's readers, as tasks/squad/examples.py has it.
WHITE_SPACE = "[ \t\r\n\u202f]+"


class Pieces(NamedTuple):
  """The word pieces of a context; every field is [pieces]."""

  ids: Tensor  # int32. Ids of the pieces.
  starts: Tensor  # int64. First byte of each piece in the context.
  ends: Tensor  # int64. The byte after each piece.
  word_starts: Tensor  # int64. First byte of the piece's word.
  word_ends: Tensor  # int64. The byte after that word.
  # int32. Number of characters less number of the pieces' characters in all
  # words up to the piece's: not 0 if the tokenizer drops or adds some.
  surplus: Tensor
  surplus_before: Tensor  # int32. The same for the words before the piece's.
  normalized: Tensor  # string. The pieces of the piece's word, joined.
  # int32. Characters of the word in pieces before this one; 0 in a word with
  # [UNK].
  offsets: Tensor
  num_chars: Tensor  # int32. Characters of the piece.
  unknown: Tensor  # int32. Number of [UNK] up to this piece.
  unknown_before: Tensor  # int32. Number of [UNK] before this piece.


class Windows(NamedTuple):
  """The windows of a context."""

  inputs: dict[str, Tensor]  # int32 [W, F] each, of the model.
  pieces: Tensor  # int32 [W, F]. Index of the context's piece at each position.
  # bool [W, F]. Whether there is one; `pieces` is arbitrary if not.
  is_piece: Tensor
  # bool [W, F]. Whether no other window has more context on both sides of the
  # piece.
  is_max_context: Tensor


class Windower:
  """Cuts one context at a time."""

  def __init__(
    self, tokenizer: bert_tokenizer.BertTokenizer, config: windows.WindowConfig
  ) -> None:
    self._tokenizer = tokenizer
    self._config = config
    self._cls, self._sep, self._unknown = (
      tokenizer.vocab[token] for token in ("[CLS]", "[SEP]", "[UNK]")
    )
    # What a piece stands for, and its number of characters.
    texts = [token.removeprefix("##") for token in tokenizer.vocab]
    self._texts = tf.constant(texts, tf.string)
    self._num_chars = tf.constant([len(text) for text in texts], tf.int32)

  def pieces(self, context: Tensor) -> Pieces:
    """Returns the word pieces of a context, which is split into words first."""
    words, word_starts, word_ends = tf_text.regex_split_with_offsets(
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
    normalized, offsets = self._normalized(ids, num_chars, word_of)
    return Pieces(
      ids,
      starts,
      ends,
      word_starts,
      tf.gather(word_ends, word_of),
      tf.gather(tf.cumsum(surplus), word_of),
      tf.gather(tf.cumsum(surplus, exclusive=True), word_of),
      normalized,
      offsets,
      num_chars,
      tf.cumsum(tf.cast(is_unknown, tf.int32)),
      tf.cumsum(tf.cast(is_unknown, tf.int32), exclusive=True),
    )

  def _normalized(
    self, ids: Tensor, num_chars: Tensor, word_of: Tensor
  ) -> tuple[Tensor, Tensor]:
    """Returns `normalized` and `offsets` of Pieces; see there."""
    num_words = tf.reduce_max(tf.concat([word_of, [-1]], axis=0)) + 1
    before = tf.cumsum(num_chars, exclusive=True)
    firsts = tf.math.unsorted_segment_min(before, word_of, num_words)
    is_unknown = tf.cast(tf.equal(ids, self._unknown), tf.int32)
    unknown = tf.math.unsorted_segment_sum(is_unknown, word_of, num_words)
    offsets = before - tf.gather(firsts, word_of)
    normalized = tf.strings.unsorted_segment_join(
      tf.gather(self._texts, ids), word_of, num_words
    )
    return (
      tf.gather(normalized, word_of),
      tf.where(tf.gather(unknown, word_of) > 0, 0, offsets),
    )

  def cut(self, question: Tensor, pieces: Pieces) -> Windows:
    """Returns the windows of a context, each after the question."""
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
    at = firsts + positions - offset  # [W, F]
    is_piece = (positions >= offset) & (at < ends)
    at = tf.clip_by_value(at, 0, tf.maximum(num_pieces - 1, 0))
    prefix = tf.pad(prefix, [[0, config.max_seq_length - offset]])
    is_last = tf.equal(positions, ends - firsts + offset)
    after = tf.where(
      is_last, self._sep, tf.where(positions < offset, prefix, 0)
    )
    is_real = is_last | is_piece | (positions < offset)
    inputs = {
      "input_ids": tf.where(is_piece, tf.gather(pieces.ids, at), after),
      "input_mask": tf.cast(is_real, tf.int32),
      "segment_ids": tf.cast(is_real & (positions >= offset), tf.int32),
    }
    best_windows = _max_context_windows(firsts, ends, num_pieces)
    numbers = tf.range(tf.size(firsts))[:, None]
    is_max_context = tf.equal(tf.gather(best_windows, at), numbers)
    return Windows(inputs, at, is_piece, is_piece & is_max_context)


def characters(text: Tensor, byte_offsets: Tensor) -> Tensor:
  """Converts byte offsets, int64 [n], to character offsets, int32 [n]."""
  offsets = tf.RaggedTensor.from_tensor(byte_offsets[None])
  found = bert_tokenizer.character_offsets(text[None], offsets)
  return tf.cast(found.values, tf.int32)


def _first_pieces(num_pieces: Tensor, length: Tensor, stride: int) -> Tensor:
  """Returns the index of the first piece of each window, int32 [W]."""
  beyond = tf.maximum(num_pieces - length, 0)
  count = tf.where(num_pieces > 0, 1 + (beyond + stride - 1) // stride, 0)
  return tf.range(count) * stride


def _max_context_windows(
  firsts: Tensor, ends: Tensor, num_pieces: Tensor
) -> Tensor:
  """Returns int32 [pieces]: the window with the most context for each piece.

  The score is the length of the shorter side plus 0.01 times the length of the
  window; the first of equals wins. `firsts` and `ends` are int32 [W, 1].
  """
  at = tf.range(num_pieces)[None, :]
  shorter = tf.cast(tf.minimum(at - firsts, ends - 1 - at), tf.float64)
  # In float64 as the original: the sums decide between windows.
  scores = shorter + 0.01 * tf.cast(ends - firsts, tf.float64)
  scores = tf.where(shorter < 0, tf.constant(-1.0, tf.float64), scores)
  is_best = tf.equal(scores, tf.reduce_max(scores, axis=0))
  numbers = tf.range(tf.size(firsts))[:, None]
  return tf.reduce_min(tf.where(is_best, numbers, tf.size(firsts)), axis=0)
