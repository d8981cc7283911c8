"""Settings for reading text: its format and sentence splitting."""

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
  """The format of the input and the language of its sentences."""

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

  def __post_init__(self) -> None:
    settings.check(self)
