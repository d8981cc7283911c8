r"""Turns text of many formats into one sentence a line.

bert-tf build-corpus --input_file='wikipedia/*.parquet' \
    --output_file=wiki.txt --language=de

The input can be plain text, JSON lines, Parquet or the output of WikiExtractor,
compressed (.gz, .bz2) or not, and by default it is Python's documentation.
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
    "The text to read: comma-separated files and globs, local or in gs://, "
    "which may end in .gz or .bz2. pydoc stands for Python's documentation.",
    topic=settings.DATA,
    main=True,
  )
  output_file: str = settings.setting(
    help="The text file to write, compressed if it ends in .gz or .bz2. With "
    "several shards, -00000-of-0000N is added to its name.",
    writes="file",
    topic=settings.OUTPUT,
  )
  text: text_config.TextConfig
  num_shards: int = settings.setting(
    1,
    "The number of output files, about equal in size.",
    minimum=1,
    topic=settings.OUTPUT,
    main=True,
  )
  eval_output_file: str | None = settings.setting(
    None,
    "The text file for held-out documents. Default: none are held out.",
    writes="file",
    topic=settings.OUTPUT,
    main=True,
  )
  eval_fraction: float = settings.setting(
    0.1,
    "The fraction of the documents to hold out, above 0 and below 1.",
    topic=settings.OUTPUT,
  )
  random_seed: int = settings.setting(
    12345, "The seed that chooses held-out documents.", topic=settings.OUTPUT
  )
  num_workers: int = settings.setting(
    1,
    "The number of processes, which does not change the result.",
    minimum=1,
    topic=settings.DEVICES,
    main=True,
  )
  resume: bool = settings.setting(
    False,
    "Whether to keep a finished corpus that the same flags have made.",
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
