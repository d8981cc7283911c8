"""Tests that all characters of a kind are treated alike."""

import unicodedata

import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.export.text_ops import character_tables

# Lone surrogates are not valid text.
CODES = np.array(
  [c for c in range(0x110000) if not 0xD800 <= c < 0xE000], np.int32
)
CHARS = list(map(chr, CODES))


def looked_up(table):
  """Returns the values of CHARS."""
  pages = table.page_starts[CODES >> character_tables.PAGE_BITS]
  return table.pages[pages + CODES % (1 << character_tables.PAGE_BITS)]


@pytest.mark.parametrize("strip_accents", [False, True])
def test_classes_are_those_of_every_character(strip_accents):
  tables = character_tables.build(False, strip_accents)
  result = looked_up(tables.classes)
  expected = [
    character_tables.IS_PUNCTUATION * tokenization.is_punctuation(char)
    + strip_accents
    * (
      character_tables.IS_STRIPPED * (unicodedata.category(char) == "Mn")
      + unicodedata.combining(char)
    )
    for char in CHARS
  ]
  np.testing.assert_array_equal(result, expected)


def test_cleaning_is_that_of_every_character():
  result = looked_up(character_tables.build(True, True).cleaning)
  names = {
    character_tables.KEPT: lambda char: char,
    character_tables.OWN_WORD: lambda char: f" {char} ",
    character_tables.DROPPED: lambda char: "",
  }
  for char, value in zip(CHARS, result.tolist()):
    cleaned = tokenization.clean_char(char)
    if value == character_tables.SPACE:
      assert cleaned.isspace(), hex(ord(char))
    else:
      assert cleaned == names[value](char), hex(ord(char))
      assert not cleaned.isspace(), hex(ord(char))


def test_casing_is_that_of_every_character():
  result = looked_up(character_tables.build(True, True).casing)
  for char, value in zip(CHARS, result.tolist()):
    is_cased = (char + "\u03a3").lower()[-1] == "\u03c2"
    is_after_cased = ("A" + char + "\u03a3").lower()[-1] == "\u03c2"
    expected = character_tables.UNCASED
    if is_cased:
      expected = character_tables.CASED
    elif is_after_cased:
      expected = character_tables.IGNORABLE
    assert value == expected, hex(ord(char))
