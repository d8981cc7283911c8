r"""Turns text into TFRecords of masked, paired instances for pre-training.

bert-tf create-pretraining-data --input_file='text/*.txt' \
    --vocab_file=vocab.txt --output_file=data.tfrecord
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.data import config as data_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandConfig:
  """The files, the processes, and how text becomes instances."""

  input_file: str = settings.setting(
    help="Text files and globs, separated by commas, gs:// too: one sentence a "
    "line, a blank line between documents, UTF-8, .gz too. `pydoc` is the "
    "documentation of the running Python.",
    original=True,
  )
  output_file: str = settings.setting(
    help="TFRecord file to write; several, separated by commas, take the "
    "instances in turn. With --num_shards above 1 one name, completed by "
    "-00000-of-0000N.",
    original=True,
  )
  data: data_config.PretrainingDataConfig
  num_shards: int = settings.setting(
    1,
    "Parts of the text, each built by itself into a file of its own. Memory is "
    "bounded by the largest. 1 gives the instances of the original release.",
  )
  num_workers: int = settings.setting(
    1, "Processes, at most one a shard; the data are the same for any number."
  )
  runner: str | None = settings.setting(
    None,
    "Build the shards on Apache Beam in place of --num_workers: DirectRunner "
    "(this machine), DataflowRunner, FlinkRunner, SparkRunner or another that "
    "Beam knows. Needs the extra beam.",
  )
  pipeline_options: str = settings.setting(
    "",
    "Options of Beam and its runner, separated by spaces, such as "
    "'--direct_running_mode=multi_processing --direct_num_workers=2'; '--help' "
    "lists them.",
  )
  resume: bool = settings.setting(
    False,
    "Keep the shards that an interrupted run with the same flags finished.",
  )
  pydoc_packages: str = settings.setting(
    "",
    "Installed packages, separated by commas, whose documentation joins pydoc.",
  )


def main() -> None:
  """Builds the records that the flags describe."""
  from bert_tf.data import corpus, pretraining_beam, pretraining_shards

  config = config_flags.build(CommandConfig)
  _check(config)
  input_files = corpus.input_files(config.input_file, config.pydoc_packages)
  if config.runner:
    pretraining_beam.create(
      config.data,
      input_files,
      config.output_file,
      num_shards=config.num_shards,
      runner=config.runner,
      pipeline_options=config.pipeline_options,
      resume=config.resume,
    )
    return
  pretraining_shards.create(
    config.data,
    input_files,
    config.output_file,
    num_shards=config.num_shards,
    num_workers=config.num_workers,
    resume=config.resume,
  )


def _check(config: CommandConfig) -> None:
  """Refuses flags that exclude one another."""
  if not config.data.mask:
    names = [f.name for f in dataclasses.fields(config.data.masking_config)]
    config_flags.refuse_given(
      names, "has no meaning with --nomask: run_pretraining masks"
    )
  if config.runner and config_flags.is_given("num_workers"):
    raise ValueError(
      f"--num_workers={config.num_workers} is for this machine and "
      f"--runner={config.runner} for Beam; give one. Beam's workers are set in "
      "--pipeline_options."
    )
  if config.pipeline_options and not config.runner:
    raise ValueError(
      f"--pipeline_options={config.pipeline_options} has no meaning without "
      "--runner; add it, or drop the options."
    )


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CommandConfig)
  command.run(main, __doc__)
