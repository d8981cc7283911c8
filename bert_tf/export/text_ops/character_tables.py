"""Tables of the tokenizer's treatment of each character, for `word_splitter`.

They are built by calling `tokenization` for a character of each kind, so they
follow its rules and the Unicode version of this Python.
"""

import collections
import dataclasses
import functools
import operator
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from bert_tf import tokenization

_NUM_CODES = 0x110000

# Planes 4 to 13 have no characters and planes 15 and 16 only private ones. None
# of them is changed, so _UNCHANGED represents them all.
_CODES = (*range(0x40000), *range(0xE0000, 0xE1000))
_UNCHANGED = chr(0x50000)

# Tables consist of pages of 256 code points, because most pages are equal.
PAGE_BITS = 8

# Results of cleaning a character. OWN_WORD and SPACE end the word before them;
# KEPT and OWN_WORD stay in the text.
KEPT, OWN_WORD, DROPPED, SPACE = range(4)

# Roles of a character in the rule of the final sigma (see _casing).
UNCASED, CASED, IGNORABLE = range(3)

# Bits of `CharacterTables.classes`.
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
  """The treatment of each character before WordPiece."""

  cleaning: Table  # KEPT, OWN_WORD, DROPPED or SPACE.
  casing: Table  # UNCASED, CASED or IGNORABLE.
  replacements: Table  # Index in `replaced_by`; 0 for no change.
  # Code points that replace a character.
  replaced_by: tuple[tuple[int, ...], ...]
  # After replacement: canonical combining class, IS_STRIPPED, IS_PUNCTUATION.
  classes: Table


@functools.cache
def build(do_lower_case: bool, strip_accents: bool) -> CharacterTables:
  """Returns the tables; the first call takes a third of a second.

  With strip_accents, characters are decomposed (NFD) before accents are
  stripped.
  """
  indices: dict[str, int] = {}

  def replace(chars: Sequence[str]) -> list[int]:
    texts = chars
    if do_lower_case:
      texts = list(map(str.lower, texts))
    if strip_accents:
      texts = [unicodedata.normalize("NFD", text) for text in texts]
    return [
      0 if text == char else indices.setdefault(text, len(indices) + 1)
      for char, text in zip(chars, texts)
    ]

  replacements = _table(replace(_chars()))
  return CharacterTables(
    cleaning=_table(_map_kinds(_cleaning)),
    casing=_table(_casing()),
    replacements=replacements,
    # Index 0 means no change.
    replaced_by=((0,), *(tuple(map(ord, text)) for text in indices)),
    classes=_table(_classes(strip_accents)),
  )


@functools.cache
def _chars() -> Sequence[str]:
  return [*map(chr, _CODES), _UNCHANGED]


@functools.cache
def _kinds() -> tuple[Sequence[str], np.ndarray]:
  """Returns a character of each kind, and the kind of each of `_chars`.

  Characters of a kind have the same category, the same range of CJK ideographs
  (or none) and the same result of isspace. Each ASCII character and U+FFFD is a
  kind of its own, because `tokenization` has special rules for them.
  """
  codes = np.array([*_CODES, ord(_UNCHANGED)])
  categories: dict[str, int] = collections.defaultdict(
    lambda: len(categories) + 1
  )
  kinds = np.array([categories[unicodedata.category(c)] for c in _chars()])
  ranges = np.searchsorted(tokenization.CJK_BOUNDS, codes, side="right")
  are_spaces = np.fromiter(map(str.isspace, _chars()), bool)
  kinds = (kinds * 100 + ranges) * 2 + are_spaces
  is_alone = (codes < 0x80) | (codes == 0xFFFD)
  kinds = np.where(is_alone, -codes, kinds)
  _, firsts, numbers = np.unique(kinds, return_index=True, return_inverse=True)
  return [_chars()[i] for i in firsts], numbers.reshape(-1)


def _map_kinds(
  function: Callable[[Sequence[str]], Sequence[int]],
) -> np.ndarray:
  firsts, numbers = _kinds()
  return np.array(function(firsts), np.int32)[numbers]


def _table(char_values: Sequence[int] | np.ndarray) -> Table:
  char_values = np.asarray(char_values, np.int32)
  values = np.full(_NUM_CODES, char_values[-1], np.int32)
  values[np.array(_CODES)] = char_values[:-1]
  # Few pages differ. A set of the pages' bytes finds them fast; np.unique would
  # take 1 s.
  all_pages = [page.tobytes() for page in values.reshape(-1, 1 << PAGE_BITS)]
  numbers_of = {
    page: np.frombuffer(page, np.int32).tolist() for page in set(all_pages)
  }
  pages = sorted(numbers_of.items(), key=operator.itemgetter(1))
  starts = {page: i << PAGE_BITS for i, (page, _) in enumerate(pages)}
  return Table(
    np.array([starts[page] for page in all_pages], np.int32),
    np.array([numbers for _, numbers in pages], np.int32).reshape(-1),
  )


def _cleaning(chars: Sequence[str]) -> list[int]:
  def value(char: str, cleaned: str) -> int:
    if not cleaned:
      return DROPPED
    if cleaned.isspace():
      return SPACE
    return KEPT if cleaned == char else OWN_WORD

  return list(map(value, chars, map(tokenization.clean_char, chars)))


@functools.cache
def _casing() -> list[int]:
  """Returns the role of each character in the rule of the final sigma.

  A capital sigma is final if the nearest character before it that is not
  ignorable is cased, and the nearest one after it is not. Python exposes these
  properties only through `str.lower`.
  """
  cased = _end_in_final_sigma("", _chars())
  after_cased = _end_in_final_sigma("A", _chars())
  return [
    CASED if is_cased else IGNORABLE if is_skipped else UNCASED
    for is_cased, is_skipped in zip(cased, after_cased)
  ]


def _end_in_final_sigma(before: str, chars: Sequence[str]) -> list[bool]:
  """Whether a capital sigma after `before` and each character is final."""
  # Joins all words into one text, which is faster. The separator is neither
  # cased nor ignorable, and occurs nowhere else because words end in a sigma.
  between = "\0\1"
  words = before + f"\u03a3{between}{before}".join(chars) + "\u03a3"
  return [word[-1] == "\u03c2" for word in words.lower().split(between)]


def _classes(strip_accents: bool) -> np.ndarray:
  is_punctuation = _map_kinds(
    lambda chars: [
      IS_PUNCTUATION * tokenization.is_punctuation(c) for c in chars
    ]
  )
  if not strip_accents:
    return is_punctuation
  is_stripped = _map_kinds(
    lambda chars: [
      IS_STRIPPED * (unicodedata.category(c) == "Mn") for c in chars
    ]
  )
  combining = np.fromiter(map(unicodedata.combining, _chars()), np.int32)
  return is_punctuation | is_stripped | combining
