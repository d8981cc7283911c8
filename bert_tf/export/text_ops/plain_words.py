"""Splits punctuation from words, as in the data of named entities.

In "He left Bonn, Germany's old capital (in 1843)." the comma after "Bonn" is a
word in such data. Only the edges of words are split: U.S., 20-year-old and 3.5
stay whole.
"""

import tensorflow as tf

from bert_tf.export.text_ops import word_splitter

# Punctuation before and after a word: ASCII signs, and Unicode's categories of
# quotation marks and brackets.
_BEFORE = r"^[\"'`¿¡\p{Ps}\p{Pi}\p{Pf}]+"
_AFTER = r"[.,;:!?…\"'`\p{Pe}\p{Pi}\p{Pf}]+$"
# Words that keep a period after them: initials, U.S. and titles.
_ABBREVIATION = r"(?:.*\pL\.\pL+|\p{Lu}|Mrs?|Ms|Dr|St|Prof|Jr|Sr)"
_POSSESSIVE = r"['’][sS]$"
# Parts of words that were split already: 's, n't.
_CLITIC = r"['’]\pL{1,2}|n['’]t"
_SIGN = r"\.\.+|[^.]|\."  # An ellipsis is a single sign.


def split(
  words: tf.Tensor, starts: tf.Tensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
  """Splits words at their edges.

  Args:
    words: string [W]. Words without white space, none of them empty.
    starts: int64 [W]. Offsets of the words in their text, in bytes.

  Returns:
    The parts of each word, string [W, (parts)], at least one, and their
    starts and ends, int64 [W, (parts)].
  """
  first, last = _core(words)
  before = tf.strings.substr(words, tf.zeros_like(first), first)
  core = tf.strings.substr(words, first, last - first)
  after = tf.strings.substr(words, last, _length(words) - last)
  stem = _length(tf.strings.regex_replace(core, _POSSESSIVE, ""))
  # Without possessive, the boolean_mask below drops this part.
  ends_in_s = (stem > 0) & (stem < _length(core))
  stem = first + tf.where(ends_in_s, stem, _length(core))
  signs = _signs(before), _signs(after)

  def joined(index: int, stems: tf.Tensor, rests: tf.Tensor) -> tf.RaggedTensor:
    columns = [
      signs[0][index],
      tf.RaggedTensor.from_tensor(stems[:, None]),
      tf.ragged.boolean_mask(rests[:, None], ends_in_s[:, None]),
      signs[1][index] + last[:, None],
    ]
    return tf.concat(columns, axis=1)

  begin, end = joined(0, first, stem), joined(1, stem, last)
  word_ids = begin.value_rowids()
  parts = word_splitter.cut(words, word_ids, begin.values, end.values)
  offsets = tf.gather(starts, word_ids)
  return (
    begin.with_values(parts),
    begin.with_values(begin.values + offsets),
    end.with_values(end.values + offsets),
  )


def _core(words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns where words without outer punctuation start and end, int64 [W]."""
  without = tf.strings.regex_replace(words, _BEFORE, "")
  first = _length(words) - _length(without)
  core = tf.strings.regex_replace(without, _AFTER, "")
  last = first + _length(core)
  after = tf.strings.substr(words, last, _length(words) - last)
  keeps_period = tf.strings.regex_full_match(core, _ABBREVIATION)
  keeps_period &= tf.strings.regex_full_match(after, r"\..*")
  last += tf.cast(keeps_period, tf.int64)
  # Pure punctuation and already split parts stay whole.
  is_whole = tf.equal(core, "") | tf.strings.regex_full_match(words, _CLITIC)
  first = tf.where(is_whole, tf.zeros_like(first), first)
  return first, tf.where(is_whole, _length(words), last)


def _signs(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
  import tensorflow_text

  _, begin, end = tensorflow_text.regex_split_with_offsets(
    texts, _SIGN, keep_delim_regex_pattern=_SIGN
  )
  return tf.cast(begin, tf.int64), tf.cast(end, tf.int64)


def _length(texts: tf.Tensor) -> tf.Tensor:
  return tf.cast(tf.strings.length(texts), tf.int64)
