"""The tokenizer as TensorFlow ops, for models that take raw text.

`BertTokenizer` returns the same ids as `tokenization.FullTokenizer`. The
vocabulary and character tables are constants of the graph, so a SavedModel
needs neither Python nor other files to run it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import model_folder, tokenization
from bert_tf.export.text_ops import plain_words, word_splitter
from bert_tf.files import errors
from bert_tf.formats import tokenizer_files
from bert_tf.model_folder import letter_case

_UNKNOWN = "[UNK]"

_TEXTS = tf.TensorSpec([None], tf.string)
_TEXT_WORDS = tf.RaggedTensorSpec([None, None], tf.string)


def load(
  files: model_folder.ModelFolder,
  do_lower_case: bool | None,
  strip_accents: bool | None,
) -> "BertTokenizer":
  """Loads the tokenizer of a model.

  Without do_lower_case and strip_accents it has those of run.json or, if there
  is none, of the vocabulary.

  Raises:
    ValueError: if there is no vocabulary, a setting contradicts run.json or the
      vocabulary, or the vocabulary has more entries than the model.
  """
  vocab_file = files.needed_vocab()
  tokenizer_files.warn_of_differing(vocab_file)
  vocab = files.load_vocab()
  case = resolve_case(files, letter_case.Case(do_lower_case, strip_accents))
  do_lower_case = case.do_lower_case is not False
  tokenization.validate_case_matches_checkpoint(
    do_lower_case, files.reader.path
  )
  return BertTokenizer(vocab, do_lower_case, case.strip_accents)


def resolve_case(
  files: model_folder.ModelFolder, user: letter_case.Case
) -> letter_case.Case:
  """Returns the letter case of a model: the user's, else that of its files."""
  return letter_case.resolve(
    user,
    letter_case.get_case(files.run),
    files.run_file,
    files.needed_vocab(),
  )


class BertTokenizer(tf.Module):
  """Converts texts to word pieces, their offsets and inputs of the model.

  The methods are `tf.function`s or can be called inside one. They run on the
  CPU, where strings are. Building the tables takes a few seconds.

  Raises:
    ValueError: if [UNK] is missing, or a token is longer than 256 bytes or
      contains U+0000.
    ImportError: if tensorflow-text is missing.
  """

  def __init__(
    self,
    vocab: Mapping[str, int],
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
  ) -> None:
    super().__init__()
    self.vocab = dict(vocab)
    self.do_lower_case = do_lower_case
    self.strip_accents = (
      do_lower_case if strip_accents is None else strip_accents
    )
    self._max_word_chars = tokenization.WordpieceTokenizer(
      self.vocab
    ).max_input_chars_per_word
    with tf.device("CPU"):
      self._wordpiece = _wordpiece_tokenizer(vocab, self._max_word_chars)
      self._splitter = word_splitter.WordSplitter(
        do_lower_case, self.strip_accents
      )

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the word-piece ids of texts, string [B]: int32 [B, (pieces)].

    Drops bytes that are not UTF-8, as `tokenization.convert_to_unicode` does.
    """
    with tf.device("CPU"):
      words = self._splitter.words(texts)
      pieces, _, _ = self._pieces(words)
      return _group_by_text(pieces, words, texts)

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def tokenize_with_offsets(
    self, texts: tf.Tensor
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Returns word-piece ids and their offsets in the texts.

    `tf.strings.substr(text, start, end - start)` is the text of a piece, with
    accents. Several pieces of one character, such as a Hangul syllable, all
    have the offsets of that character.

    Returns:
      ids: int32 [B, (pieces)].
      starts: int64 [B, (pieces)]. First byte of each piece; convert it with
        `character_offsets`.
      ends: int64 [B, (pieces)]. Byte after each piece.
    """
    with tf.device("CPU"):
      words = self._splitter.words(texts)
      pieces, first, last = self._pieces_with_characters(words)
      ids = _group_by_text(pieces, words, texts)
      starts = ids.with_values(tf.gather(words.starts, first))
      ends = ids.with_values(tf.gather(words.ends, last))
      return ids, starts, ends

  @tf.function(input_signature=[_TEXT_WORDS], autograph=False)
  def tokenize_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the ids of string [B, (words)], int32 [B, (words), (pieces)]."""
    return words.with_values(self.tokenize(words.values))

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def split_at_white_space(
    self, texts: tf.Tensor
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts, string [B], at white space only, without cleaning them.

    The concatenated word pieces of the words are those of the text.

    Returns:
      words: string [B, (words)].
      starts, ends: int64 [B, (words)]. Offsets of the words in bytes.
    """
    with tf.device("CPU"):
      starts, ends = self._splitter.white_space_words(texts)
      words = word_splitter.cut(
        texts, starts.value_rowids(), starts.values, ends.values
      )
      return starts.with_values(words), starts, ends

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def split_plain_text(
    self, texts: tf.Tensor
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts, string [B], into words and punctuation.

    Splits at white space, then as described in `plain_words`. Returns the same
    as `split_at_white_space`.
    """
    words, starts, _ = self.split_at_white_space(texts)
    with tf.device("CPU"):
      split, begin, end = plain_words.split(words.values, starts.values)
      words, begin, end = (
        words.with_values(parts).merge_dims(1, 2)
        for parts in (split, begin, end)
      )
      return words, begin, end

  def pack(
    self,
    segments: Sequence[tf.RaggedTensor],
    max_seq_length: int | tf.Tensor,
    pad_to_max: bool = True,
  ) -> dict[str, tf.Tensor]:
    """Returns the inputs of the model, as `packing.build_input` does.

    Args:
      segments: one or two int32 [B, (pieces)]: a text or a pair. An empty
        second text is ignored.
      max_seq_length: F, with room for [CLS] and [SEP]. Longer inputs are
        truncated; a pair from the end of its longer text.
      pad_to_max: whether to pad to F rather than to the longest of the batch.

    Returns:
      input_ids, input_mask and segment_ids: int32 [B, F], padded with 0.

    Raises:
      ValueError: for a vocabulary without [CLS] and [SEP].
    """
    room = max_seq_length - 1 - len(segments)
    import tensorflow_text

    special_ids = tokenization.convert_by_vocab(self.vocab, ["[CLS]", "[SEP]"])
    with tf.device("CPU"):
      ids, segment_ids = tensorflow_text.combine_segments(
        _truncate(segments, tf.cast(room, tf.int64)),
        *(tf.constant(i, tf.int32) for i in special_ids),
      )
      if len(segments) == 2:
        # Without second text there is no second [SEP].
        lengths = ids.row_lengths() - tf.cast(_is_single(segments), tf.int64)
        ids, segment_ids = (_first(x, lengths) for x in (ids, segment_ids))
      values = (ids, tf.ones_like(ids), segment_ids)
      parts = dict(zip(("input_ids", "input_mask", "segment_ids"), values))
      shape = tf.stack([-1, max_seq_length if pad_to_max else -1])
      return {name: part.to_tensor(shape=shape) for name, part in parts.items()}

  def _pieces(
    self, words: word_splitter.Words
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Returns ids, starts and ends (bytes of the word), all [W, (pieces)]."""
    codes = tf.RaggedTensor.from_row_splits(
      words.codes, words.splits, validate=False
    )
    strings = tf.strings.unicode_encode(codes, "UTF-8")
    # [UNK] is in the vocabulary, so it stays a single piece.
    strings = tf.where(self._is_too_long(words), _UNKNOWN, strings)
    return self._wordpiece.tokenize_with_offsets(strings)

  def _is_too_long(self, words: word_splitter.Words) -> tf.Tensor:
    return words.splits[1:] - words.splits[:-1] > self._max_word_chars

  def _pieces_with_characters(
    self, words: word_splitter.Words
  ) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
    """Returns pieces, and their first and last index in words.codes."""
    pieces, starts, ends = self._pieces(words)
    # int64 [K + 1]. Bytes before each of the K characters of all words.
    before = tf.concat(
      [[0], tf.cumsum(word_splitter.num_bytes(words.codes))], axis=0
    )
    word_ids = pieces.value_rowids()
    word_starts = tf.gather(tf.gather(before, words.splits), word_ids)

    def characters(offsets: tf.RaggedTensor) -> tf.Tensor:
      places = word_starts + tf.cast(offsets.values, tf.int64)
      return tf.searchsorted(before, places, out_type=tf.int64)

    word_ends = tf.gather(words.splits[1:], word_ids)
    is_too_long = tf.gather(self._is_too_long(words), word_ids)
    ends = tf.where(is_too_long, word_ends, characters(ends))
    return pieces, characters(starts), ends - 1


def character_offsets(
  texts: tf.Tensor, byte_offsets: tf.RaggedTensor
) -> tf.RaggedTensor:
  """Converts byte offsets to offsets in characters of a Python str.

  If a text is not UTF-8, characters are those of
  `bytes.decode(errors="replace")`.

  Args:
    texts: string [B].
    byte_offsets: int64 [B, (n)]. Starts of characters, or the text's length.
  """
  with tf.device("CPU"):
    _, starts = tf.strings.unicode_decode_with_offsets(
      texts, "UTF-8", errors="replace"
    )
    # Offsets of all texts in a sorted list; each text starts at a multiple of
    # 2**32.
    step = tf.constant(1 << 32, tf.int64)
    places = starts.value_rowids() * step + starts.values
    rows = byte_offsets.value_rowids()
    indices = tf.searchsorted(
      places, rows * step + byte_offsets.values, out_type=tf.int64
    )
    firsts = tf.gather(starts.row_splits, rows)
    return byte_offsets.with_values(indices - firsts)


def _wordpiece_tokenizer(vocab: Mapping[str, int], max_word_chars: int) -> Any:
  text_ops = errors.import_tensorflow_text("a model that takes texts")
  # A character has at most four bytes.
  max_word_bytes = 4 * max_word_chars
  no_pretokenization, support_detokenization = True, False
  try:
    model = text_ops.build_fast_wordpiece_model(
      list(vocab),
      max_word_bytes,
      "##",
      _UNKNOWN,
      no_pretokenization,
      support_detokenization,
    )
  except RuntimeError as error:
    raise ValueError(
      f"The vocabulary cannot be compiled: {' '.join(str(error).split())} "
      "Replace that token by an [unused] one."
    ) from None
  return text_ops.FastWordpieceTokenizer(
    model_buffer=tf.constant(np.frombuffer(model, np.uint8)),
    token_out_type=tf.int32,
  )


def _group_by_text(
  pieces: tf.RaggedTensor, words: word_splitter.Words, texts: tf.Tensor
) -> tf.RaggedTensor:
  """Regroups the pieces of words, [W, (pieces)], as [B, (pieces)]."""
  ends = tf.searchsorted(
    words.texts, tf.range(tf.size(texts, tf.int64)), side="right"
  )
  splits = tf.gather(pieces.row_splits, tf.concat([[0], ends], axis=0))
  return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)


def _truncate(
  segments: Sequence[tf.RaggedTensor], room: tf.Tensor
) -> list[tf.RaggedTensor]:
  lengths = [segment.row_lengths() for segment in segments]
  if len(segments) == 1:
    counts = [tf.minimum(lengths[0], room)]
  else:
    # See packing.truncate_pair. Without second text there is only one [SEP], so
    # the first has room for another piece.
    room += tf.cast(_is_single(segments), tf.int64)
    first = tf.maximum(room - lengths[1], (room + 1) // 2)
    first = tf.minimum(lengths[0], first)
    counts = [first, tf.minimum(lengths[1], room - first)]
  return [_first(segment, count) for segment, count in zip(segments, counts)]


def _is_single(segments: Sequence[tf.RaggedTensor]) -> tf.Tensor:
  return tf.equal(segments[1].row_lengths(), 0)


def _first(rows: tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
  """Returns the first `counts`, int64 [B], values of each row."""
  starts = rows.row_starts()
  return tf.gather(rows.values, tf.ragged.range(starts, starts + counts))
