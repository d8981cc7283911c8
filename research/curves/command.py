"""Compares a pre-training run with a reference curve.

python -m research.curves.command --output_dir=out --plot_file=compared.png

Plots both and prints where the run leaves the reference band. The folder
research/ablations/results/curves has references for tiny, mini and small
models. run_scripts/ablations.py writes others to the folder curves/ of its
output_dir, for --reference_dir.
"""

import dataclasses
import os

from bert_tf import settings
from bert_tf.checkpoint import run_info
from bert_tf.cli import command, config_flags
from bert_tf.files import json_files
from research.curves import reference_curves


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareConfig:
  """The run and the reference."""

  output_dir: str = settings.setting(help="The folder of the pre-training run.")
  plot_file: str | None = settings.setting(
    None,
    "The PNG or SVG file to write. Default: compared.png in output_dir.",
    writes="file",
  )
  reference_dir: str | None = settings.setting(
    None,
    "The folder with CSV files of reference curves. Default: "
    "research/ablations/results/curves.",
  )
  reference: str | None = settings.setting(
    None, "The name of the reference. Default: the nearest in size."
  )


def read_run(output_dir: str) -> reference_curves.Run:
  """Returns the curves, sizes and settings of a pre-training run."""
  from bert_tf.training import curves

  info = run_info.read_run(output_dir)
  if not info or info.task != "pretraining":
    raise ValueError(f"{output_dir} is not the folder of a pre-training run.")
  run_curves = curves.read(output_dir)
  if "masked_lm_loss" not in run_curves:
    raise ValueError(f"{output_dir} has no events with a training curve.")
  sizes = json_files.read_object(os.path.join(output_dir, run_info.CONFIG_FILE))
  commands = [c["settings"] for c in run_info.read_commands(output_dir)]
  trained = [settings for settings in commands if settings.get("do_train")]
  if not trained:
    raise ValueError(f"{output_dir} lists no command that trained.")
  return reference_curves.Run(run_curves, {**trained[-1], **sizes})


def main() -> None:
  """Compares the run with its reference and plots both."""
  config = config_flags.build(CompareConfig)
  run = read_run(config.output_dir)
  folder = config.reference_dir or reference_curves.FOLDER
  if config.reference:
    path = os.path.join(folder, f"{config.reference}.csv")
    reference = reference_curves.read(path)
  else:
    reference = reference_curves.nearest(
      reference_curves.read_all(folder),
      run.settings["num_hidden_layers"],
      run.settings["hidden_size"],
    )
  seeds = " ".join(map(str, reference.seeds))
  print(f"The reference is {reference.name}, with seeds {seeds}.")
  for line in reference_curves.differences(run, reference):
    print(f"  {line}")
  deviations = list(reference_curves.find_deviations(run, reference))
  for deviation in deviations:
    print(reference_curves.describe(deviation))
  if not deviations:
    print("The run stays within the band.")
  path = config.plot_file or os.path.join(config.output_dir, "compared.png")
  name = os.path.basename(os.path.normpath(config.output_dir))
  reference_curves.draw(path, run, reference, name)
  print(path)


def run() -> None:
  """Runs the command; never returns."""
  config_flags.define(CompareConfig)
  command.run(main, __doc__)


if __name__ == "__main__":
  run()
