r"""Splits text of any format into one sentence a line.

bert-tf build-corpus --input_file='wikipedia/*.parquet' \
    --output_file=wiki.txt --language=de

Reads plain text, JSON lines, Parquet and the output of WikiExtractor, also as
.gz or .bz2, and the documentation of this Python.
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.corpora import text_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig(text_config.PydocConfig):
  """The input and output files, and the way to build the corpus."""

  input_file: str = settings.setting(
    "pydoc",
    "Text to read: comma-separated files and globs, local or gs://, also .gz "
    "and .bz2. pydoc is the documentation of this Python.",
    topic=settings.DATA,
    main=True,
  )
  output_file: str = settings.setting(
    help="Text file to write; .gz or .bz2 compresses it. With --num_shards "
    "above 1, a prefix to which -00000-of-0000N is added.",
    writes="file",
    topic=settings.OUTPUT,
  )
  text: text_config.TextConfig
  num_shards: int = settings.setting(
    1,
    "Number of output files, of about equal size.",
    minimum=1,
    topic=settings.OUTPUT,
    main=True,
  )
  eval_output_file: str | None = settings.setting(
    None,
    "Text file for held-out documents. Default: hold out none.",
    writes="file",
    topic=settings.OUTPUT,
    main=True,
  )
  eval_fraction: float = settings.setting(
    0.1,
    "Fraction of the documents to hold out, above 0 and below 1.",
    topic=settings.OUTPUT,
  )
  random_seed: int = settings.setting(
    12345, "Seed for choosing the held-out documents.", topic=settings.OUTPUT
  )
  num_workers: int = settings.setting(
    1,
    "Number of processes. Does not change the result.",
    minimum=1,
    topic=settings.DEVICES,
    main=True,
  )
  resume: bool = settings.setting(
    False,
    "Whether to keep a complete corpus that the same flags have made.",
    topic=settings.OUTPUT,
    main=True,
  )


@command.of(CorpusConfig)
def run() -> None:
  """Writes the corpus that the flags describe."""
  from bert_tf.corpora import corpus_build, sources

  config = config_flags.build(CorpusConfig)
  inputs = sources.find_files(
    config.input_file, config.text, text_config.TEXT, config.pydoc_packages
  )
  output = settings.extract(config, corpus_build.Output)
  corpus_build.create(
    config.text, inputs, output, config.num_workers, config.resume
  )
