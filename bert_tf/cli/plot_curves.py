"""Plots a run's learning curves.

bert-tf plot-curves --output_dir=out --plot_file=curves.png
"""

import dataclasses

from bert_tf import settings
from bert_tf.cli import command


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlotConfig:
  """The run and the plot."""

  output_dir: str = settings.setting(help="The folder of the run.")
  plot_file: str = settings.setting(
    help="The file to write, such as curves.png or curves.svg.", writes="file"
  )
  plot_width: int = settings.setting(
    1200, "The width of the figure in pixels. Narrow ones stack their panels."
  )


@command.of(PlotConfig)
def run(config: PlotConfig) -> None:
  """Plots the curves of a run."""
  from bert_tf.training import curves

  curves.plot(config.output_dir, config.plot_file, config.plot_width)
  print(config.plot_file)
