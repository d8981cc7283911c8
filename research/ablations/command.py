r"""Runs the paper's ablations, scaled to this machine or a cluster.

python run_scripts/ablations.py --scale=tiny --text=wiki.txt --glue_dir=GLUE \
    --output_dir=out

Pre-trains and fine-tunes the variants of each experiment and compares the
results with the paper's tables in report.md. After an interruption, the same
command resumes.
"""

import re
import sys

from bert_tf.cli import command, config_flags, devices
from research import start
from research.ablations import config as ablations_config


def main() -> None:
  """Runs the experiments, or only writes the report."""
  config = config_flags.build(ablations_config.AblationsConfig)
  if config.report_only:
    from research.ablations import report

    report.run(config)
    return
  with start.needs_extras("ablations"):
    from research.ablations import runner
  runner.run(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(ablations_config.AblationsConfig)
  # A report without runs needs no devices; TensorFlow takes seconds to import.
  if any(re.match("--?report_only(=true)?$", word) for word in sys.argv[1:]):
    command.run(main, __doc__)
  devices.run(main, __doc__)
