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

  input_format: str = settings.data(
    AUTO,
    "The format of the input. lines has a sentence a line and a blank line "
    "between documents, text is running text, jsonl and parquet have a "
    "document in each row, wikiextractor has <doc> lines, and auto detects it.",
    choices=(AUTO, LINES, TEXT, JSONL, PARQUET, WIKIEXTRACTOR),
    main=True,
  )
  documents: str = settings.data(
    BLANK_LINE,
    "What ends a document in running text. file is for books: blank lines "
    "separate paragraphs, and texts above 1 MB are cut between them.",
    choices=(BLANK_LINE, FILE, LINE),
  )
  text_column: str = settings.data(
    "text", "The column of jsonl and parquet that holds the text."
  )
  language: str = settings.data(
    "en",
    "The language, such as de or zh, whose rules split text into sentences.",
    main=True,
  )

  def __post_init__(self) -> None:
    settings.check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PydocConfig:
  """Packages whose documentation joins that of Python."""

  pydoc_packages: str = settings.data(
    "", "The packages whose documentation pydoc adds, comma-separated."
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamConfig:
  """The Beam runner and its options. Without a runner, Beam is not used."""

  runner: str | None = settings.devices(
    None,
    "The Apache Beam runner, such as DirectRunner or DataflowRunner, instead "
    "of --num_workers. It needs the extra beam.",
  )
  pipeline_options: str = settings.devices(
    "",
    "The options of Beam, separated by spaces. '--help' lists them.",
  )

  def __post_init__(self) -> None:
    if self.pipeline_options and not self.runner:
      raise ValueError(
        f"`pipeline_options={self.pipeline_options}` needs `runner`."
      )
