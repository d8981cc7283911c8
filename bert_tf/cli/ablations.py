r"""Runs the paper's ablations, at a size that fits this machine or a cluster.

bert-tf ablations --scale=tiny --text=wiki.txt --glue_dir=GLUE --output_dir=out

Pre-trains and fine-tunes what each experiment compares, and writes report.md
and report.html beside the paper's tables. The same command goes on where it
was interrupted.
"""

from bert_tf.ablations import config as ablations_config
from bert_tf.cli import config_flags, devices


def main() -> None:
  """Builds the config from the flags and runs."""
  from bert_tf.ablations import runner

  runner.run(config_flags.build(ablations_config.AblationsConfig))


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(ablations_config.AblationsConfig)
  devices.run(main, __doc__)
