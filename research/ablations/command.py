r"""Runs the paper's ablations, scaled to this machine or a cluster.

python run_scripts/ablations.py --scale=tiny --text=wiki.txt --glue_dir=GLUE \
    --output_dir=out

Pre-trains and fine-tunes the variants of each experiment and compares the
results with the paper's tables in report.md. After an interruption, the same
command resumes.
"""

from bert_tf.cli import config_flags, devices
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
    import matplotlib  # noqa: F401  The report needs it after all runs.

    from research.ablations import runner
  runner.run(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(ablations_config.AblationsConfig)
  devices.run(main, __doc__)
