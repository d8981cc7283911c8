"""Settings for reading text, splitting it and writing a corpus."""

import dataclasses

from bert_tf import settings

# Values of input_format.
LINES = "lines"
TEXT = "text"
JSONL = "jsonl"
PARQUET = "parquet"
AUTO = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig:
  """The format of the input and the language of its sentences."""

  input_format: str = settings.data(
    AUTO,
    "The format of the input. lines has a sentence a line and a blank line "
    "between documents, text is running text, jsonl and parquet have a "
    "document in each row, and auto detects it.",
    choices=(AUTO, LINES, TEXT, JSONL, PARQUET),
    main=True,
  )
  documents: str = settings.data(
    "blank_line",
    "What ends a document in running text. file is for books: blank lines "
    "separate paragraphs, and texts above 1 MB are cut between them.",
    choices=("blank_line", "file", "line"),
  )
  text_column: str = settings.data(
    "text", "The column of jsonl and parquet that holds the text."
  )
  language: str = settings.data(
    "en",
    "The language, such as de or zh, whose rules split text into sentences. "
    "Unknown languages get those of English.",
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
class Output:
  """The files of a corpus."""

  output_file: str = settings.output(
    help="The text file to write, compressed if it ends in .gz or .bz2.",
    writes="file",
  )
  eval_output_file: str | None = settings.output(
    None,
    "The text file for held-out documents. Default: none are held out.",
    writes="file",
    main=True,
  )
  eval_fraction: float = settings.output(
    0.1, "The fraction of the documents to hold out.", minimum=0, maximum=1
  )
  random_seed: int = settings.output(
    12345, "The seed that chooses held-out documents."
  )

  def __post_init__(self) -> None:
    settings.check(self)

  @property
  def report_file(self) -> str:
    """Path of settings and counts as JSON; written last."""
    return f"{self.output_file}.report.json"


def normalize_language(language: str) -> str:
  """Returns a language code in lower case with hyphens."""
  return language.strip().lower().replace("_", "-")
