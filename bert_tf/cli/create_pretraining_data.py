r"""Creates TFRecords for pre-training from text.

bert-tf create-pretraining-data --input_file='text/*.txt' \
    --vocab_file=vocab.txt --output_file=data.tfrecord
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.data.config import PretrainingDataConfig
from bert_tf.text import text_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig(text_config.PydocConfig):
  """The files, the processes and the instances."""

  input_file: str = settings.data(
    help="The text to read, one sentence a line and a blank line between "
    "documents: comma-separated files and globs, local or in gs://, which may "
    "end in .gz or .bz2. pydoc stands for Python's documentation. build-corpus "
    "converts other formats.",
    original=True,
  )
  output_file: str = settings.output(
    help="The TFRecord file to write, or several, comma-separated, that share "
    "the instances. With several shards, -00000-of-0000N is added to its name.",
    original=True,
    writes="files",
  )
  data: PretrainingDataConfig
  num_shards: int = settings.output(
    1,
    "The number of parts of the text, each of which gets its own file. With 1, "
    "the instances are the original's.",
    main=True,
  )
  num_workers: int = settings.devices(
    1,
    "The number of processes, which does not change the result. Each builds "
    "one shard at a time, so num_shards are enough.",
    minimum=1,
    main=True,
  )
  runner: str | None = settings.devices(
    None,
    "The Apache Beam runner, such as DirectRunner or DataflowRunner, instead "
    "of --num_workers. It needs the extra beam.",
  )
  pipeline_options: str = settings.devices(
    "", "The options of Beam, separated by spaces. '--help' lists them."
  )
  resume: bool = settings.output(
    False,
    "Whether to keep what an interrupted run with the same flags has finished.",
  )


@command.of(CommandConfig)
def run(config: CommandConfig) -> None:
  """Creates the records that the flags describe."""
  from bert_tf.data.pretraining import pretraining_shards
  from bert_tf.text import corpus_build, letter_case

  if not config.data.mask:
    names = [f.name for f in dataclasses.fields(config.data.masking_config)]
    config_flags.refuse_given(
      names, "has no effect with --nomask: run_pretraining masks the instances"
    )
  input_files = corpus_build.find_lines(
    config.input_file, config.pydoc_packages
  )
  letter_case.warn_if_cased(config.data.vocab_file, config.data.do_lower_case)
  build = None
  if config.runner:
    build = pretraining_shards.beam_builder(
      config.output_file, config.runner, config.pipeline_options
    )
  pretraining_shards.create(
    config.data,
    input_files,
    config.output_file,
    config.num_shards,
    config.num_workers,
    config.resume,
    build,
  )
