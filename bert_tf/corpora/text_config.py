"""Settings for reading text: its format and sentence splitting."""

import dataclasses
import functools

from bert_tf import settings

_data = functools.partial(settings.setting, topic=settings.DATA)
_devices = functools.partial(settings.setting, topic=settings.DEVICES)

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

  input_format: str = _data(
    AUTO,
    "Format of the input. lines: one sentence per line, a blank line between "
    "documents. text: running text. jsonl, parquet: one document per row. "
    "wikiextractor: its <doc> lines. auto: detect it.",
    choices=(AUTO, LINES, TEXT, JSONL, PARQUET, WIKIEXTRACTOR),
    main=True,
  )
  documents: str = _data(
    BLANK_LINE,
    "End of a document in running text. file is for books: blank lines "
    "separate paragraphs, and text of over 1 MB is cut between paragraphs.",
    choices=(BLANK_LINE, FILE, LINE),
  )
  text_column: str = _data(
    "text", "Column of jsonl and parquet that holds the text."
  )
  language: str = _data(
    "en",
    "Language code, such as de or zh, whose rules split text into sentences.",
    main=True,
  )

  def __post_init__(self) -> None:
    settings.check(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PydocConfig:
  """Packages whose documentation joins that of Python."""

  pydoc_packages: str = _data(
    "", "Comma-separated packages whose documentation pydoc adds to Python's."
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamConfig:
  """The Beam runner and its options. Without a runner, Beam is not used."""

  runner: str | None = _devices(
    None,
    "Apache Beam runner instead of --num_workers, such as DirectRunner or "
    "DataflowRunner. Needs the extra beam.",
  )
  pipeline_options: str = _devices(
    "",
    "Options of Beam and its runner, separated by spaces. '--help' lists them.",
  )

  def __post_init__(self) -> None:
    if self.pipeline_options and not self.runner:
      raise ValueError(
        f"`pipeline_options={self.pipeline_options}` needs `runner`."
      )
