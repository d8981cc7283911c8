"""Filters: leaves out documents and lines that do not help training.

Copies and repeated lines, such as menus, would be learned by heart. Short
documents and tables hold little running text.
"""

import collections
import hashlib
import unicodedata
from collections.abc import Sequence

from bert_tf.corpora import text_config

# Names of the counts, with their labels in the report. Each document that was
# read is either written or left out for exactly one reason.
LABELS = {
  "documents_read": "documents read",
  "blank": "without text",
  "duplicates": "copies left out",
  "too_short": "too short",
  "few_letters": "with too few letters",
  "documents": "documents written",
  "eval_documents": "of them held out",
  "sentences": "sentences",
  "characters": "characters",
  "repeated_lines": "repeated lines left out",
}


class Duplicates:
  """Detects documents that differ at most in white space, by their hashes."""

  def __init__(self) -> None:
    self._seen: set[bytes] = set()

  def is_new(self, text: str) -> bool:
    """Remembers a text; returns whether its words, in order, are new."""
    words = " ".join(text.split()).encode()
    digest = hashlib.blake2b(words, digest_size=16).digest()
    is_new = digest not in self._seen
    self._seen.add(digest)
    return is_new


def without_repeated_lines(
  documents: Sequence[Sequence[str]],
  max_line_repeats: int,
  counts: collections.Counter[str],
) -> list[list[str]]:
  """Returns the documents without lines that occur too often.

  Args:
    documents: lists of lines.
    max_line_repeats: how often a line may occur in all documents together; 0
      allows any number.
    counts: receives the number of "repeated_lines" that were left out.
  """
  if not max_line_repeats:
    return [list(document) for document in documents]
  occurrences = collections.Counter(
    line for document in documents for line in document
  )
  filtered = [
    [line for line in document if occurrences[line] <= max_line_repeats]
    for document in documents
  ]
  num_left = sum(map(len, filtered))
  counts["repeated_lines"] += sum(map(len, documents)) - num_left
  return filtered


def reason_to_drop(
  lines: Sequence[str], config: text_config.TextConfig
) -> str | None:
  """Returns the name of the filter that drops a document, or None."""
  if not lines:
    return "blank"
  if sum(map(len, lines)) < config.min_document_chars:
    return "too_short"
  if config.min_letter_share and (
    letter_share("".join(lines)) < config.min_letter_share
  ):
    return "few_letters"
  return None


def letter_share(text: str) -> float:
  """Returns the share of letters among non-blank characters; 0 for blank text.

  Marks count as letters, because Thai and Hindi vowels are marks.
  """
  letters = total = 0
  for character, count in collections.Counter(text).items():
    if not character.isspace():
      total += count
      letters += count * (unicodedata.category(character)[0] in "LM")
  return letters / total if total else 0.0
