"""Splits texts into words as TensorFlow ops.

The words are those of `tokenization.BasicTokenizer`. All texts of a batch are
joined to a row of code points, so that each step is a few ops. Ops for rare
characters (a capital sigma, accents to sort) run only if the batch has such
characters.
"""

from typing import NamedTuple

import tensorflow as tf

from bert_tf.export.text_ops import character_tables

_CAPITAL_SIGMA = 0x3A3
_FINAL_SIGMA = 0x3C2


class Words(NamedTuple):
  """All words of a batch in order, and their positions in the texts.

  W is the number of words of all texts, and K the number of their characters.
  """

  texts: tf.Tensor  # int64 [W]. Index of the text of each word; not decreasing.
  # int64 [W + 1]. Index of the first character of each word, then K.
  splits: tf.Tensor
  # int32 [K]. Code points after lower-casing and stripping accents.
  codes: tf.Tensor
  # int64 [K]. For each character, the first byte of its source: the character
  # of the text that it replaces.
  starts: tf.Tensor
  ends: tf.Tensor  # int64 [K]. Byte after the source and its stripped accents.


class _Decoded(NamedTuple):
  """The N original characters of a batch."""

  texts: tf.Tensor  # int64 [N]. Index of the text of each character.
  # int32 [N]. Code points; U+FFFD for bytes that are not UTF-8.
  codes: tf.Tensor
  starts: tf.Tensor  # int64 [N]. First byte in the text.
  ends: tf.Tensor  # int64 [N]. Byte after the character.


class _Characters(NamedTuple):
  """The characters after a step of splitting; all fields have equal length."""

  codes: tf.Tensor  # int32. Code points.
  words: tf.Tensor  # int64. Id of each character's word; ids increase.
  sources: tf.Tensor  # int64. Index in _Decoded of each source.


class WordSplitter(tf.Module):
  """Cleans, lower-cases and splits texts at white space and punctuation."""

  def __init__(self, do_lower_case: bool, strip_accents: bool) -> None:
    super().__init__()
    self._do_lower_case = do_lower_case
    self._strip_accents = strip_accents
    tables = character_tables.build(do_lower_case, strip_accents)
    self._cleaning = _Lookup(tables.cleaning)
    self._casing = _Lookup(tables.casing)
    self._replacements = _Lookup(tables.replacements)
    self._replaced_by = tf.ragged.constant(tables.replaced_by, tf.int32)
    self._classes = _Lookup(tables.classes)

  def words(self, texts: tf.Tensor) -> Words:
    """Returns the words of texts, string [B], without bytes not in UTF-8."""
    decoded = _decode(texts)
    characters = self._clean(decoded)
    if self._do_lower_case:
      characters = self._lower_final_sigmas(characters)
    if self._do_lower_case or self._strip_accents:
      characters = self._replace_characters(characters)
    classes = self._classes.look_up(characters.codes)
    ends = tf.gather(decoded.ends, characters.sources)
    if self._strip_accents:
      characters, classes = _sort_marks(characters, classes)
      characters, classes, ends = _drop_accents(characters, classes, ends)
    is_alone = classes & character_tables.IS_PUNCTUATION != 0
    words = _split_around(is_alone, characters.words)
    first = tf.where(_is_first(words))[:, 0]
    sources = characters.sources
    return Words(
      texts=tf.gather(decoded.texts, tf.gather(sources, first)),
      splits=tf.concat([first, [tf.size(words, tf.int64)]], axis=0),
      codes=characters.codes,
      starts=tf.gather(decoded.starts, sources),
      ends=ends,
    )

  def white_space_words(
    self, texts: tf.Tensor
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Returns starts and ends of the words between white space, in bytes.

    Both are int64 [B, (words)].
    """
    decoded = _decode(texts)
    is_space = self._cleaning.look_up(decoded.codes) == character_tables.SPACE
    words = _split_around(is_space, decoded.texts)
    shown = tf.where(~is_space)[:, 0]
    words = tf.gather(words, shown)
    first = tf.gather(shown, tf.where(_is_first(words))[:, 0])
    last = tf.gather(shown, tf.where(_is_last(words))[:, 0])
    starts = tf.RaggedTensor.from_value_rowids(
      tf.gather(decoded.starts, first),
      tf.gather(decoded.texts, first),
      nrows=tf.size(texts, tf.int64),
      validate=False,
    )
    return starts, starts.with_values(tf.gather(decoded.ends, last))

  def _clean(self, decoded: _Decoded) -> _Characters:
    cleaning = self._cleaning.look_up(decoded.codes)
    words = _split_around(cleaning & 1 != 0, decoded.texts)
    sources = tf.where(cleaning <= character_tables.OWN_WORD)[:, 0]
    return _Characters(
      tf.gather(decoded.codes, sources), tf.gather(words, sources), sources
    )

  def _lower_final_sigmas(self, characters: _Characters) -> _Characters:
    codes, words, _ = characters

    def changed() -> tf.Tensor:
      casing = self._casing.look_up(codes)
      counted = tf.where(casing != character_tables.IGNORABLE)[:, 0]
      is_cased = tf.gather(casing, counted) == character_tables.CASED
      word = tf.gather(words, counted)
      goes_on = word[1:] == word[:-1]
      follows = tf.concat([[False], is_cased[:-1] & goes_on], axis=0)
      is_followed = tf.concat([is_cased[1:] & goes_on, [False]], axis=0)
      is_sigma = tf.gather(codes, counted) == _CAPITAL_SIGMA
      final = counted[follows & is_sigma & ~is_followed]
      sigmas = tf.fill(tf.shape(final), _FINAL_SIGMA)
      return tf.tensor_scatter_nd_update(codes, final[:, None], sigmas)

    is_there = tf.reduce_any(codes == _CAPITAL_SIGMA)
    return characters._replace(codes=tf.cond(is_there, changed, lambda: codes))

  def _replace_characters(self, characters: _Characters) -> _Characters:
    indices = self._replacements.look_up(characters.codes)
    replaced = tf.gather(self._replaced_by, indices)
    origins = replaced.value_rowids()
    is_changed = tf.gather(indices, origins) != 0
    codes, words, sources = (tf.gather(x, origins) for x in characters)
    codes = tf.where(is_changed, replaced.values, codes)
    return _Characters(codes, words, sources)


class _Lookup:
  """A table of character_tables as TensorFlow constants."""

  def __init__(self, table: character_tables.Table) -> None:
    self._page_starts = tf.constant(table.page_starts)
    self._pages = tf.constant(table.pages)

  def look_up(self, codes: tf.Tensor) -> tf.Tensor:
    """Returns the values of code points, int32."""
    bits = character_tables.PAGE_BITS
    starts = tf.gather(self._page_starts, tf.bitwise.right_shift(codes, bits))
    return tf.gather(self._pages, starts + (codes & ((1 << bits) - 1)))


def _decode(texts: tf.Tensor) -> _Decoded:
  codes, starts = tf.strings.unicode_decode_with_offsets(
    texts, "UTF-8", errors="replace"
  )
  rows = codes.value_rowids()
  starts = starts.values
  next_starts = tf.concat([starts[1:], [0]], axis=0)[: tf.size(starts)]
  text_ends = tf.gather(tf.strings.length(texts), rows)
  ends = tf.where(_is_last(rows), tf.cast(text_ends, tf.int64), next_starts)
  return _Decoded(rows, codes.values, starts, ends)


def _split_around(is_alone: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
  """Renumbers `words` so that each `is_alone` character is its own word."""
  alone = tf.cast(is_alone, tf.int64)
  return words + 2 * tf.cumsum(alone) - alone


def _is_first(words: tf.Tensor) -> tf.Tensor:
  before = tf.concat([[tf.constant(-1, tf.int64)], words], axis=0)[:-1]
  return words != before


def _is_last(words: tf.Tensor) -> tf.Tensor:
  after = tf.concat([words, [tf.constant(-1, tf.int64)]], axis=0)[1:]
  return words != after


def num_bytes(codes: tf.Tensor) -> tf.Tensor:
  """Returns the number of bytes of code points in UTF-8, int64."""
  larger = [tf.cast(codes >= least, tf.int64) for least in (0x80, 0x800, 65536)]
  return 1 + tf.add_n(larger)


def cut(
  texts: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
  """Returns the bytes from `starts` to `ends` of texts[rows], string [N].

  Takes memory linear in the bytes of texts and parts. `tf.strings.substr` would
  copy the whole text for each part.

  Args:
    texts: string [B].
    rows: int [N]. Index of the text of each part.
    starts: int64 [N]. First byte of each part in its text.
    ends: int64 [N]. Byte after each part.
  """
  characters = tf.strings.bytes_split(texts)
  before = tf.gather(characters.row_starts(), rows)
  places = tf.ragged.range(before + starts, before + ends)
  return tf.strings.unsorted_segment_join(
    tf.gather(characters.values, places.values),
    places.value_rowids(),
    places.nrows(),
  )


def _sort_marks(
  characters: _Characters, classes: tf.Tensor
) -> tuple[_Characters, tf.Tensor]:
  """Sorts the accents after a character by combining class, as NFD does.

  Runs only if accents stay, which is rare. Sorts codes and classes but not
  sources.
  """
  codes, words, _ = characters
  ranks = classes & character_tables.COMBINING_CLASS

  def sort() -> tuple[tf.Tensor, tf.Tensor]:
    groups = tf.cumsum(tf.cast(_is_first(words) | (ranks == 0), tf.int64))
    keys = groups * (character_tables.COMBINING_CLASS + 1)
    order = tf.argsort(keys + tf.cast(ranks, tf.int64), stable=True)
    return tf.gather(codes, order), tf.gather(classes, order)

  stays = classes & character_tables.IS_STRIPPED == 0
  codes, classes = tf.cond(
    tf.reduce_any(stays & (ranks > 0)), sort, lambda: (codes, classes)
  )
  return characters._replace(codes=codes), classes


def _drop_accents(
  characters: _Characters, classes: tf.Tensor, ends: tf.Tensor
) -> tuple[_Characters, tf.Tensor, tf.Tensor]:
  """Drops accents and extends the `ends` of the characters before them."""
  stays = classes & character_tables.IS_STRIPPED == 0
  # A group is a character with the accents after it, or the accents at the
  # start of a word.
  groups = tf.cumsum(tf.cast(stays | _is_first(characters.words), tf.int64)) - 1
  ends = tf.gather(tf.math.segment_max(ends, groups), groups)
  indices = tf.where(stays)[:, 0]
  codes, words, sources = (tf.gather(values, indices) for values in characters)
  return (
    _Characters(codes, words, sources),
    tf.gather(classes, indices),
    tf.gather(ends, indices),
  )
