"""What the tokenizer does to each character, as arrays for `word_splitter`.

They are made by calling `tokenization` on every code point, so its rules and
the Unicode version of the running Python hold here too.
"""

import dataclasses
import functools
import unicodedata
from collections.abc import Callable

import numpy as np

from bert_tf import tokenization

_NUM_CODES = 0x110000

# Planes 4 to 13 have no characters, planes 15 and 16 private ones only; none of
# these is changed. One of them stands for all.
_CODES = (*range(0x40000), *range(0xE0000, 0xE1000))
_UNCHANGED = chr(0x50000)

# Code points are looked up by 256: most pages of a table are the same.
PAGE_BITS = 8

# What cleaning does to a character. OWN_WORD and SPACE end the word before
# them; KEPT and OWN_WORD stay in the text.
KEPT, OWN_WORD, DROPPED, SPACE = range(4)

# How a character counts in the rule of the final sigma (see _casing).
UNCASED, CASED, IGNORABLE = range(3)

# In `CharacterTables.classes`, above the combining class.
COMBINING_CLASS = 0xFF
IS_STRIPPED = 0x100
IS_PUNCTUATION = 0x200


@dataclasses.dataclass(frozen=True)
class Table:
  """An int for each code point: pages[page_starts[code >> 8] + code % 256]."""

  page_starts: np.ndarray  # int32 [4352].
  pages: np.ndarray  # int32 [256 * pages that differ].


@dataclasses.dataclass(frozen=True)
class CharacterTables:
  """All changes of characters before WordPiece."""

  cleaning: Table  # KEPT, OWN_WORD, DROPPED or SPACE.
  casing: Table  # UNCASED, CASED or IGNORABLE.
  replacements: Table  # Index in `replaced_by`, 0 where nothing changes.
  # The code points that replace a character.
  replaced_by: tuple[tuple[int, ...], ...]
  # Of a character after replacement: its canonical combining class, plus
  # IS_STRIPPED and IS_PUNCTUATION.
  classes: Table


@functools.cache
def build(do_lower_case: bool, strip_accents: bool) -> CharacterTables:
  """Returns the tables; the first call takes a second.

  Accents are stripped of decomposed characters (NFD).
  """
  indices: dict[str, int] = {}

  def replacement(char: str) -> int:
    replaced = char.lower() if do_lower_case else char
    if strip_accents:
      replaced = unicodedata.normalize("NFD", replaced)
    if replaced == char:
      return 0
    return indices.setdefault(replaced, len(indices) + 1)

  replacements = _table(replacement)
  return CharacterTables(
    cleaning=_table(_cleaning),
    casing=_table(_casing),
    replacements=replacements,
    # The first is never used.
    replaced_by=((0,), *(tuple(map(ord, text)) for text in indices)),
    classes=_table(functools.partial(_class, strip_accents=strip_accents)),
  )


@functools.cache
def _table(value_of: Callable[[str], int]) -> Table:
  """Returns the table of the values of all characters."""
  values = np.full(_NUM_CODES, value_of(_UNCHANGED), np.int32)
  values[list(_CODES)] = [value_of(chr(code)) for code in _CODES]
  pages = values.reshape(-1, 1 << PAGE_BITS)
  pages, page_of = np.unique(pages, axis=0, return_inverse=True)
  starts = page_of.reshape(-1).astype(np.int32) << PAGE_BITS
  return Table(starts, pages.reshape(-1))


def _cleaning(char: str) -> int:
  """Returns what cleaning does to a character."""
  cleaned = tokenization.clean_char(char)
  if not cleaned:
    return DROPPED
  if cleaned.isspace():
    return SPACE
  return KEPT if cleaned == char else OWN_WORD


def _casing(char: str) -> int:
  """Returns how `str.lower` counts a character beside a capital sigma.

  A sigma is final if the nearest character before it that is not ignorable is
  cased, and the one after it is not. Python offers no other way to tell.
  """
  if (char + "\u03a3").lower()[-1] == "\u03c2":
    return CASED
  ends = ("A" + char + "\u03a3").lower()[-1] == "\u03c2"
  return IGNORABLE if ends else UNCASED


def _class(char: str, strip_accents: bool) -> int:
  """Returns the value of `CharacterTables.classes` of one character."""
  found = IS_PUNCTUATION if tokenization.is_punctuation(char) else 0
  if strip_accents:
    found |= unicodedata.combining(char)
    if unicodedata.category(char) == "Mn":
      found |= IS_STRIPPED
  return found
