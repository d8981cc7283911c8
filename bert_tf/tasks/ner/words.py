"""Splits texts into the words that are labelled."""

import functools
import re
import unicodedata
from collections.abc import Iterator

_WORD = re.compile(r"\S+")
# Words that keep a period after them: U.S., initials and titles.
_ABBREVIATION = r"(?:.*[^\W\d_]\.[^\W\d_]+|[A-Z]|Mrs?|Ms|Dr|St|Prof|Jr|Sr)\."
# Parts of words that were split already: 's, n't.
_CLITIC = re.compile(r"['’][^\W\d_]{1,2}|n['’]t")
_SIGN = re.compile(r"\.\.+|.")  # An ellipsis is a single sign.


def split_at_spaces(text: str) -> Iterator[tuple[str, int]]:
  """Yields the words of a text, each with its index in the text."""
  return ((match[0], match.start()) for match in _WORD.finditer(text))


def split_punctuation(text: str) -> Iterator[tuple[str, int]]:
  """Yields the words and signs of ordinary text, each with its index.

  In "He left Bonn, Germany's old capital (in 1843)." the comma is a word, as in
  the data of named entities. Only the edges of words are split: U.S.,
  20-year-old and 3.5 stay whole.
  """
  for word in _WORD.finditer(text):
    parts = _word_pattern().fullmatch(text, *word.span())
    if not parts or not parts[2] or _CLITIC.fullmatch(word[0]):
      yield word[0], word.start()
      continue
    before, core, possessive, after = map(parts.span, range(1, 5))
    signs = [
      [sign.span() for sign in _SIGN.finditer(text, *span)]
      for span in (before, after)
    ]
    for first, end in (*signs[0], core, possessive, *signs[1]):
      if first < end:
        yield text[first:end], first


@functools.cache
def _word_pattern() -> re.Pattern[str]:
  """Groups a word into signs, its core, a possessive 's, and signs."""
  signs: dict[str, str] = dict.fromkeys(("Pi", "Pf", "Ps", "Pe"), "")
  for char in map(chr, range(0x10000)):
    if (category := unicodedata.category(char)) in signs:
      signs[category] += re.escape(char)
  quotes = f"\"'`{signs['Pi']}{signs['Pf']}"
  before, after = f"¿¡{quotes}{signs['Ps']}", f".,;:!?…{quotes}{signs['Pe']}"
  return re.compile(
    rf"([{before}]*)({_ABBREVIATION}|.*?)(['’][sS])?([{after}]*)"
  )
