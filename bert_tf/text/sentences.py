"""Splits text into sentences by the rules of its language."""

import textwrap
from collections.abc import Iterator


def split_sentences(language: str, paragraph: str) -> Iterator[str]:
  """Yields the sentences, each without line breaks. Skips empty ones.

  The language is a code such as en, de-AT or zh_Hans. Those without rules of
  their own get the rules of English, with the marks of all scripts.
  """
  import sentencex

  language = normalize_language(language).partition("-")[0]
  # Longer sentences are cut at a space. Lao and Thai do not mark the end of a
  # sentence; a space ends a clause, and some clauses count as a sentence.
  max_chars = 120 if language in ("lo", "th") else 1000
  for piece in sentencex.segment(language, paragraph):
    sentence = " ".join(piece.split())
    if len(sentence) > max_chars:
      yield from textwrap.wrap(
        sentence, max_chars, break_long_words=False, break_on_hyphens=False
      )
    elif sentence:
      yield sentence


def normalize_language(language: str) -> str:
  """Returns a language code in lower case with hyphens."""
  return language.strip().lower().replace("_", "-")
