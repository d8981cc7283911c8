"""Sentences with named entities: files in CoNLL's format, tags and words.

A line holds a word and its other columns. If a line has a tab, tabs separate
its columns, and a word may contain spaces; otherwise spaces separate columns. A
blank line ends a sentence, and a -DOCSTART- line starts a document.

Files may use IOB1 or IOB2. All other code uses IOB2: the first word of an
entity has the tag B-TYPE, its other words I-TYPE, and words outside of entities
O. `to_labels` converts tags.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from bert_tf.files import text_lines
from bert_tf.tasks.rows import Row

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"

_WORD = re.compile(r"\S+")
# Words that keep a period after them: U.S., initials and titles.
_ABBREVIATION = r"(?:.*[^\W\d_]\.[^\W\d_]+|[A-Z]|Mrs?|Ms|Dr|St|Prof|Jr|Sr)\."
# Parts of words that were split already: 's, n't.
_CLITIC = re.compile(r"['’][^\W\d_]{1,2}|n['’]t")
_SIGN = re.compile(r"\.\.+|.")  # An ellipsis is a single sign.


def read_sentences(
  path: str, word_column: int = 0, tag_column: int = -1
) -> list[Row]:
  """Reads a file, which may be compressed (.gz).

  A row has `words`; their tags as `label`, if the file has tags; the `line`
  number of the first word, from 1; `document`, the number of -DOCSTART- lines
  before; and the `text`, unless a word contains white space, which no text
  could show.

  The columns are counted from 0, or from the last, -1. If they are the same,
  the file has no tags. Raises ValueError with file and line for other columns.
  """
  sentences: list[Row] = []
  words: list[str] = []
  tags: list[str] = []
  document, num_columns = 0, None
  lines = itertools.chain(text_lines.read_lines(path), [""])
  for number, line in enumerate(lines, start=1):
    # Other white space of Unicode is part of a word.
    line = line.strip(" \r")
    separator = "\t" if "\t" in line else " "
    all_cells = [cell.strip(" ") for cell in line.split(separator)]
    # Several separators may align columns or surround an empty cell.
    cells = [cell for cell in all_cells if cell]
    if cells and len(all_cells) == num_columns:
      cells = all_cells
    is_start = cells[:1] and cells[0].split(" ")[0] == DOCUMENT_START
    if not cells or is_start:
      if words:
        first = number - len(words)
        row: Row = {"words": words, "line": first, "document": document}
        if tags:
          row["label"] = tags
        if all(len(word.split()) == 1 for word in words):
          row["text"] = " ".join(words)
        sentences.append(row)
        words, tags = [], []
      document += bool(is_start)
      continue
    num_columns = num_columns or len(cells)
    if len(cells) != num_columns:
      raise ValueError(
        f"{path}:{number}: {len(cells)} columns, but {num_columns} before: "
        f"{line[:60]!r}. Columns are separated by tabs, or by spaces in a line "
        "without tabs."
      )
    try:
      words.append(cells[word_column])
      tag = cells[tag_column]
    except IndexError:
      raise ValueError(
        f"{path}:{number}: {len(cells)} columns. Set `word_column` and "
        "`tag_column`, counted from 0, or from the last, -1."
      ) from None
    if word_column % num_columns != tag_column % num_columns:
      tags.append(tag)
  if not sentences:
    raise ValueError(f"{path} holds no words.")
  return sentences


def to_iob2(tags: Sequence[str]) -> list[str]:
  """Converts tags of either scheme to IOB2.

  An I- that does not continue an entity of its type begins one, as in IOB1,
  conlleval and seqeval.
  """
  return [
    f"B{tag[1:]}"
    if tag[:2] in ("I", "I-") and previous not in (tag, f"B{tag[1:]}")
    else tag
    for tag, previous in zip(tags, [OUTSIDE, *tags])
  ]


def to_labels(
  tags: Sequence[str], labels: Sequence[str] | None = None
) -> list[str | None]:
  """Returns the labels of a model that tags mean; None for one it lacks.

  Either may lack B-, or B- and I-: in a model of O and PER, B-PER means PER.
  Without labels, each tag of IOB2 is one, and None stands for other text.
  """
  if labels is None:
    return [tag if is_tag(tag) else None for tag in to_iob2(tags)]
  with_prefix = [
    tag if is_tag(tag) or tag in labels else f"I-{tag}" for tag in tags
  ]
  return [
    next((t for t in (tag, f"I{tag[1:]}", tag[2:]) if t in labels), None)
    for tag in to_iob2(with_prefix)
  ]


def is_tag(text: str) -> bool:
  """Returns whether a text is a tag: O, B-TYPE, I-TYPE, or B or I."""
  prefix, dash, type_ = text.partition("-")
  return text == OUTSIDE or (prefix in ("B", "I") and bool(type_) == bool(dash))


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
    spans = [sign.span() for sign in _SIGN.finditer(text, *before)]
    spans += [core, possessive]
    spans += [sign.span() for sign in _SIGN.finditer(text, *after)]
    yield from ((text[i:end], i) for i, end in spans if i < end)


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
