"""Reads sentences with named entities from files in CoNLL's format.

A line holds a word and its other columns. If a line has a tab, tabs separate
its columns, and a word may contain spaces; otherwise spaces separate columns. A
blank line ends a sentence, and a -DOCSTART- line starts a document.

Files may use IOB1 or IOB2. All other code uses IOB2: the first word of an
entity has the tag B-TYPE, its other words I-TYPE, and words outside of entities
O.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from bert_tf.files import text_lines
from bert_tf.model_folder import run_info

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"


@dataclasses.dataclass(frozen=True)
class FileFormat:
  """The columns and the tag scheme of files."""

  # The column of the words, counted from 0, or negative from the last, -1.
  word_column: int = 0
  # The column of the tags; equal to word_column if files have no tags.
  tag_column: int = -1
  tag_scheme: str = "auto"  # One of config.TAG_SCHEMES.


@dataclasses.dataclass(frozen=True)
class Sentence:
  """Words with their tags."""

  words: tuple[str, ...]
  # The IOB2 tag of each word; None if the tags are not known.
  tags: tuple[str, ...] | None
  line: int  # Line number of the first word, from 1; the others follow.
  document: int = 0  # The number of -DOCSTART- lines before the sentence.


def read_sentences(path: str, file_format: FileFormat) -> list[Sentence]:
  """Reads a file, which may be compressed (.gz); converts its tags to IOB2.

  Raises ValueError with file and line for other columns or an invalid tag.
  """
  sentences = []
  for line, document, rows in _row_groups(path):
    cells = [
      _word_and_tag(path, number, row, file_format)
      for number, row in enumerate(rows, line)
    ]
    words = tuple(word for word, _ in cells)
    tags = tuple(tag for _, tag in cells if tag is not None)
    known = tags if len(tags) == len(words) else None
    sentences.append(Sentence(words, known, line, document))
  if not sentences:
    raise ValueError(f"{path} holds no words.")
  if sentences[0].tags is None:
    return sentences
  if file_format.tag_scheme == "iob2":
    _check_begins_with_b(path, sentences)
  return [
    dataclasses.replace(sentence, tags=to_iob2(sentence.tags or ()))
    for sentence in sentences
  ]


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
  """Converts tags of either scheme to IOB2.

  An I- that does not continue an entity of its type begins one, as in IOB1,
  conlleval and seqeval.
  """
  before = [OUTSIDE, *tags]
  return tuple(
    "B" + tag[1:] if tag[0] == "I" and not _continues(tag, previous) else tag
    for tag, previous in zip(tags, before)
  )


def infer_labels(sentences: Sequence[Sentence]) -> tuple[str, ...]:
  """Returns the labels of sentences: O, then B- and I- of each type, sorted.

  Each type has both tags, since other files may have entities of several words
  even if the training file does not.
  """
  types = {tag[1:] for s in sentences for tag in s.tags or () if tag != OUTSIDE}
  return (
    OUTSIDE,
    *(prefix + type_ for type_ in sorted(types) for prefix in "BI"),
  )


def entity_types(labels: Sequence[str]) -> list[str]:
  """Returns the entity types of labels; B and I without a type have none."""
  return [label[2:] for label in labels if label.startswith("B-")]


def check_labels(
  path: str, sentences: Sequence[Sentence], spec: run_info.LabelSpec
) -> None:
  """Raises ValueError for a tag that is not a label; names its line."""
  known = set(spec.labels)
  for sentence in sentences:
    for number, tag in enumerate(sentence.tags or (), sentence.line):
      if tag not in known:
        raise ValueError(f"{path}:{number}: {spec.unknown_label(tag)}.")


def _row_groups(path: str) -> Iterator[tuple[int, int, list[list[str]]]]:
  """Yields (first line, document, cells of each line) of every sentence."""
  rows, document, first = [], 0, None
  for number, line in enumerate(text_lines.read_lines(path), start=1):
    # Other white space of Unicode is part of a word.
    line = line.strip(" \r")
    cells = line.split("\t" if "\t" in line else " ")
    cells = [cell for cell in (cell.strip(" ") for cell in cells) if cell]
    is_start = cells[:1] and cells[0].split(" ")[0] == DOCUMENT_START
    if cells and not is_start:
      first = first or (number, len(cells))
      if len(cells) != first[1]:
        raise ValueError(
          f"{path}:{number}: {len(cells)} columns, but line {first[0]} has "
          f"{first[1]}: {line[:60]!r}; columns are separated by tabs, or "
          "by spaces in a line without tabs."
        )
      rows.append(cells)
      continue
    if rows:
      yield number - len(rows), document, rows
      rows = []
    document += bool(is_start)
  if rows:
    yield number - len(rows) + 1, document, rows


def _word_and_tag(
  path: str, number: int, cells: Sequence[str], file_format: FileFormat
) -> tuple[str, str | None]:
  """Returns the word and the tag of a line; no tag if the file has none."""
  indices = []
  for name in ("word_column", "tag_column"):
    column = getattr(file_format, name)
    index = column + len(cells) if column < 0 else column
    if not 0 <= index < len(cells):
      raise ValueError(
        f"{path}:{number}: {len(cells)} columns, so there is no {name} "
        f"{column}; set `{name}`, counted from 0, or negative from the last."
      )
    indices.append(index)
  word, tag = (cells[index] for index in indices)
  if indices[0] == indices[1]:
    return word, None
  if not is_tag(tag):
    raise ValueError(
      f"{path}:{number}: {tag!r} is not a tag; tags are O, B-TYPE and I-TYPE, "
      f"in column {file_format.tag_column} (`tag_column`)."
    )
  return word, tag


def is_tag(text: str) -> bool:
  """Returns whether a text is a tag: O, B-TYPE, I-TYPE, or B or I."""
  prefix, dash, type_ = text.partition("-")
  return text == OUTSIDE or (prefix in ("B", "I") and bool(type_) == bool(dash))


def _continues(tag: str, previous: str) -> bool:
  """Returns whether a tag has the type of the previous word's entity."""
  return previous != OUTSIDE and previous[1:] == tag[1:]


def _check_begins_with_b(path: str, sentences: Sequence[Sentence]) -> None:
  """Raises ValueError for an I- that begins an entity, which IOB2 forbids."""
  for sentence in sentences:
    previous = OUTSIDE
    for number, tag in enumerate(sentence.tags or (), sentence.line):
      if tag[0] == "I" and not _continues(tag, previous):
        raise ValueError(
          f"{path}:{number}: {tag} after {previous}, but in IOB2 an entity "
          "begins with B-; correct the line, or leave out `tag_scheme` to read "
          "it as a beginning."
        )
      previous = tag
