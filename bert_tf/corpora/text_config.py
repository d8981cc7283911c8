"""Settings for reading text: its format, sentence splitting and filters."""

import dataclasses

from bert_tf import settings

LINES = "lines"
TEXT = "text"
JSONL = "jsonl"
PARQUET = "parquet"
DUMP = "dump"
WIKIEXTRACTOR = "wikiextractor"
AUTO = "auto"

FILE = "file"
BLANK_LINE = "blank_line"
LINE = "line"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig:
  """The format of the input, and filters for its documents."""

  input_format: str = settings.setting(
    AUTO,
    "What the input is. lines: one sentence a line, a blank line between "
    "documents. text: running text. jsonl and parquet: a document a row. dump: "
    "Wikipedia's XML. wikiextractor: its <doc> lines (its JSON is jsonl). auto "
    "looks into each file.",
    choices=(AUTO, LINES, TEXT, JSONL, PARQUET, DUMP, WIKIEXTRACTOR),
  )
  documents: str = settings.setting(
    BLANK_LINE,
    "What ends a document of running text. file is for books: a blank line "
    "then ends a paragraph, and what is longer than 1 MB is cut between two.",
    choices=(BLANK_LINE, FILE, LINE),
  )
  text_column: str = settings.setting(
    "text", "The column of jsonl and parquet that has the text."
  )
  language: str = settings.setting(
    "en",
    "Code of the language, such as de or zh, by whose rules text is split into "
    "sentences.",
  )
  min_document_chars: int = settings.setting(
    0, "Leave out documents of fewer characters.", minimum=0
  )
  min_letter_share: float = settings.setting(
    0.0,
    "Leave out documents with a smaller share of letters among the characters "
    "that are not blank, [0, 1].",
    minimum=0,
    maximum=1,
  )
  max_line_repeats: int = settings.setting(
    0,
    "Leave out lines, or paragraphs of running text, that occur more often "
    "than this in 8 MB of input, such as menus and notices; 0 keeps them.",
    minimum=0,
  )
  drop_duplicates: bool = settings.setting(
    False, "Leave out documents with the same words as an earlier one."
  )
  near_duplicate_similarity: float = settings.setting(
    0.0,
    "Leave out documents that are similar to an earlier one by this much or "
    "more: runs of 5 words that both have, as a share of those of either, "
    "estimated. 0.8 is usual; 0 keeps all.",
    minimum=0,
    maximum=1,
  )

  def __post_init__(self) -> None:
    settings.check(self)

  @property
  def has_filters(self) -> bool:
    """Whether any filter is on."""
    return bool(
      self.min_document_chars
      or self.min_letter_share
      or self.max_line_repeats
      or self.drop_duplicates
      or self.near_duplicate_similarity
    )
