r"""Runs the paper's ablations, at a size that fits this machine or a cluster.

python run_scripts/ablations.py --scale=tiny --text=wiki.txt --glue_dir=GLUE \
  --output_dir=out

Pre-trains and fine-tunes what each experiment compares, and writes report.md
and report.html beside the paper's tables. The same command goes on where it
was interrupted.
"""

import re
import sys

from bert_tf.cli import command, config_flags, devices, text_flags
from research import start
from research.ablations import config as ablations_config


def main() -> None:
  """Builds the config from the flags and runs."""
  config = config_flags.build(ablations_config.AblationsConfig)
  if config.report_only:
    from research.ablations import report

    report.run(config)
    return
  with start.needs_extras("ablations"):
    from research.ablations import runner
  text_flags.check_text(str(config.text), config.reading)
  runner.run(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(ablations_config.AblationsConfig)
  # A report needs neither devices nor TensorFlow, which takes seconds.
  if any(re.match("--?report_only(=true)?$", word) for word in sys.argv[1:]):
    command.run(main, __doc__)
  devices.run(main, __doc__)
