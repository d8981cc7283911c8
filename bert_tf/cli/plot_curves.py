"""Draws the learning curves of a run, from its TensorBoard events.

bert-tf plot-curves --output_dir=out --plot_file=curves.png
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command, config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlotConfig:
  """A run and its plot."""

  output_dir: str = settings.setting(help="Folder of the run.")
  plot_file: str = settings.setting(help="PNG file to write.")


def main() -> None:
  """Draws the curves."""
  from bert_tf.training import curves

  config = config_flags.build(PlotConfig)
  curves.plot(config.output_dir, config.plot_file)
  print(config.plot_file)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(PlotConfig)
  command.run(main, __doc__)
