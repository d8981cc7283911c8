"""Settings for reading text: its format, sentence splitting and filters."""

import dataclasses

from bert_tf import settings

# Values of input_format.
LINES = "lines"
TEXT = "text"
JSONL = "jsonl"
PARQUET = "parquet"
WIKIEXTRACTOR = "wikiextractor"
AUTO = "auto"

# Values of documents: the end of a document in running text.
FILE = "file"
BLANK_LINE = "blank_line"
LINE = "line"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig:
  """The format of the input, and filters for its documents."""

  input_format: str = settings.setting(
    AUTO,
    "Format of the input. lines: one sentence per line, a blank line between "
    "documents. text: running text. jsonl, parquet: one document per row. "
    "wikiextractor: its <doc> lines; its JSON is jsonl. auto: detect the "
    "format of each file.",
    choices=(AUTO, LINES, TEXT, JSONL, PARQUET, WIKIEXTRACTOR),
    topic=settings.DATA,
    main=True,
  )
  documents: str = settings.setting(
    BLANK_LINE,
    "End of a document in running text: a blank line, the file, or the line. "
    "file is for books: blank lines separate paragraphs, and text of over 1 MB "
    "is cut between paragraphs.",
    choices=(BLANK_LINE, FILE, LINE),
    topic=settings.DATA,
  )
  text_column: str = settings.setting(
    "text",
    "Column of jsonl and parquet that holds the text.",
    topic=settings.DATA,
  )
  language: str = settings.setting(
    "en",
    "Language code, such as de or zh, whose rules split text into sentences.",
    topic=settings.DATA,
    main=True,
  )
  min_document_chars: int = settings.setting(
    0,
    "Leave out documents with fewer characters.",
    minimum=0,
    topic=settings.FILTERS,
  )
  min_letter_share: float = settings.setting(
    0.0,
    "Leave out documents with a smaller share of letters among their non-blank "
    "characters, [0, 1].",
    minimum=0,
    maximum=1,
    topic=settings.FILTERS,
  )
  max_line_repeats: int = settings.setting(
    0,
    "Leave out lines (paragraphs of running text) that occur more often than "
    "this in 8 MB of input, such as menus. 0 keeps all.",
    minimum=0,
    topic=settings.FILTERS,
  )
  drop_duplicates: bool = settings.setting(
    False,
    "Leave out documents with the same words as an earlier one.",
    topic=settings.FILTERS,
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
    )
