r"""Turns text of many formats into one sentence a line.

bert-tf build-corpus --input_file='wikipedia/*.parquet' \
    --output_file=wiki.txt --language=de

The input can be plain text, JSON lines or Parquet, compressed (.gz, .bz2) or
not, and by default it is Python's documentation.
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command
from bert_tf.text import text_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(text_config.PydocConfig):
  """The input and output files, and the way to build the corpus."""

  input_file: str = settings.data(
    "pydoc",
    "The text to read: comma-separated files and globs, local or in gs://, "
    "which may end in .gz or .bz2. pydoc stands for Python's documentation.",
    main=True,
  )
  text: text_config.TextConfig
  output: text_config.Output
  num_workers: int = settings.devices(
    1,
    "The number of processes, which does not change the result.",
    minimum=1,
    main=True,
  )


@command.of(CorpusConfig)
def run(config: CorpusConfig) -> None:
  """Writes the corpus that the flags describe."""
  from bert_tf.text import corpus_build

  inputs = corpus_build.find_files(
    config.input_file, config.text, text_config.TEXT, config.pydoc_packages
  )
  corpus_build.build_corpus(
    config.text, inputs, config.output, config.num_workers
  )
