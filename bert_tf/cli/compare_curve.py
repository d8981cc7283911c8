"""Draws a pre-training over the nearest reference curve.

bert-tf compare-curve --output_dir=out --plot_file=compared.png

Says where the run leaves the band of the reference: of tiny, mini and small
models that were trained here, or of one's own --reference_dir, the curves/ of
the ablations' output_dir.
"""

import dataclasses
import os

from bert_tf import settings
from bert_tf.cli import command, config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareConfig:
  """A run, and what it is compared with."""

  output_dir: str = settings.setting(help="Folder of the pre-training.")
  plot_file: str | None = settings.setting(
    None,
    "PNG or SVG file to draw. Default: compared.png in output_dir.",
    writes="file",
  )
  reference_dir: str | None = settings.setting(
    None, "Folder of reference curves, CSV. Default: those of the package."
  )
  reference: str | None = settings.setting(
    None, "Name of the reference. Default: that of the nearest size."
  )
  axis: str = settings.setting(
    "step",
    "What the curves are drawn and compared against. word_pieces counts the "
    "padding of the run, which its folder does not tell, but not that of the "
    "reference.",
    choices=("step", "word_pieces"),
  )


def main() -> None:
  """Compares and draws."""
  from bert_tf.ablations import comparison, reference

  config = config_flags.build(CompareConfig)
  own = comparison.read_run(config.output_dir)
  known = reference.read_all(config.reference_dir or reference.FOLDER)
  if config.reference:
    named = [one for one in known if one.name == config.reference]
    if not named:
      names = ", ".join(one.name for one in known)
      raise ValueError(
        f"there is no reference {config.reference!r}; use {names}."
      )
    other = named[0]
  else:
    sizes = ("num_hidden_layers", "hidden_size")
    other = reference.nearest(known, *(int(own.settings[n]) for n in sizes))
  seeds = " ".join(map(str, other.seeds))
  print(f"The reference is {other.name}, of the seeds {seeds}.")
  for line in comparison.differences(own, other):
    print(f"  {line}")
  found = list(comparison.leavings(own, other, config.axis))
  for one in found:
    print(comparison.describe(one, config.axis))
  if not found:
    print("The run stays within the band.")
  path = config.plot_file or os.path.join(config.output_dir, "compared.png")
  name = os.path.basename(os.path.normpath(config.output_dir))
  comparison.draw(path, own, other, config.axis, name)
  print(path)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CompareConfig)
  command.run(main, __doc__)
