"""Splits texts into the words that are labelled."""

import functools
import re
import unicodedata
from collections.abc import Iterator

_WORD = re.compile(r"\S+")
# Words that keep a period after them: initials, U.S. and titles.
_ABBREVIATION = re.compile(
  r".*[^\W\d_]\.[^\W\d_]+|[^\W\d_]|Mrs?|Ms|Dr|St|Prof|Jr|Sr"
)
_POSSESSIVE = re.compile(r"(?<=.)['’][sS]$")
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
  quotes = "\"'`" + _signs("Pi", "Pf")
  for match in _WORD.finditer(text):
    word, start = match[0], match.start()
    core = word.lstrip("¿¡" + quotes + _signs("Ps"))
    first = len(word) - len(core)
    core = core.rstrip(".,;:!?…" + quotes + _signs("Pe"))
    last = first + len(core)
    if (
      word[last:].startswith(".")
      and _ABBREVIATION.fullmatch(core)
      and (len(core) > 1 or core.isupper())
    ):
      last += 1
    if not core or _CLITIC.fullmatch(word):
      first, last = 0, len(word)
    possessive = _POSSESSIVE.search(word[first:last])
    middle = first + possessive.start() if possessive else last
    bounds = [
      *(sign.span() for sign in _SIGN.finditer(word, 0, first)),
      *((first, middle), (middle, last)),
      *(sign.span() for sign in _SIGN.finditer(word, last)),
    ]
    for begin, end in bounds:
      if begin < end:
        yield word[begin:end], start + begin


@functools.cache
def _signs(*categories: str) -> str:
  # The characters of these categories of Unicode.
  chars = map(chr, range(0x10000))
  return "".join(c for c in chars if unicodedata.category(c) in categories)
