r"""Writes a corpus, one sentence a line, from files or from Python's own docs.

bert-tf build-corpus --input_file=pydoc --output_file=train.txt \
    --eval_output_file=eval.txt
"""

import dataclasses

from absl import logging

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.data import corpus


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusConfig:
  """What is read and written."""

  input_file: str = settings.setting(
    "pydoc",
    "Text to read: comma-separated files and globs, .gz too, and the word "
    "pydoc for the documentation of the running Python.",
  )
  pydoc_packages: str = settings.setting(
    "",
    "Comma-separated installed packages whose documentation joins pydoc.",
  )
  output_file: str = settings.setting(
    help="Text file to write; a name in .gz is compressed."
  )
  eval_output_file: str | None = settings.setting(
    None,
    "Text file for the documents that are held out; unset holds none out.",
  )
  eval_fraction: float = settings.setting(
    0.1,
    "Share of the documents that go to eval_output_file, above 0 and below 1.",
  )
  random_seed: int = settings.setting(
    12345, "Seed that chooses which documents go there."
  )


def main() -> None:
  """Reads the input and writes one file or two."""
  config = config_flags.build(CorpusConfig)
  documents = corpus.documents(
    corpus.input_files(config.input_file, config.pydoc_packages)
  )
  if config.eval_output_file:
    num_train, num_eval = corpus.split_documents(
      documents,
      config.output_file,
      config.eval_output_file,
      config.eval_fraction,
      config.random_seed,
    )
    logging.info("%d documents to %s", num_train, config.output_file)
    logging.info("%d documents to %s", num_eval, config.eval_output_file)
  else:
    num_documents = corpus.write_documents(config.output_file, documents)
    logging.info("%d documents to %s", num_documents, config.output_file)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CorpusConfig)
  command.run(main, __doc__)
