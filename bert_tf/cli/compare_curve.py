"""Draws a pre-training over the nearest reference curve.

bert-tf compare-curve --output_dir=out --plot_file=compared.png

Says where the run leaves the band of the reference: of tiny, mini and small
models that were trained here, or of your own --reference_dir, the curves/ of
the output_dir of run_scripts/ablations.py.
"""

import dataclasses
import os

from bert_tf import settings
from bert_tf.cli import command, config_flags
from bert_tf.files import json_files
from bert_tf.model_folder import run_info
from bert_tf.plots import reference_curves


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
    choices=tuple(reference_curves.AXES),
  )


def read_run(output_dir: str) -> reference_curves.Own:
  """Returns the events, sizes and settings of a pre-training.

  Raises:
    ValueError: if the folder holds no pre-training with events and commands.
  """
  from bert_tf.training import curves

  info = run_info.read_run(output_dir)
  if not info or info.task != "pretraining":
    raise ValueError(
      f"{output_dir} holds no pre-training; give the `output_dir` of one."
    )
  found = curves.read(output_dir)
  if "masked_lm_loss" not in found:
    raise ValueError(f"{output_dir} holds no events of a pre-training.")
  sizes = json_files.read_object(os.path.join(output_dir, run_info.CONFIG_FILE))
  trained = run_info.training_settings(output_dir)
  if not trained:
    raise ValueError(
      f"{output_dir}/{run_info.COMMANDS_FILE} has no command that trained."
    )
  pieces = trained["train_batch_size"] * trained["max_seq_length"]
  return reference_curves.Own(found, {**trained, **sizes}, pieces)


def main() -> None:
  """Compares and draws."""
  config = config_flags.build(CompareConfig)
  own = read_run(config.output_dir)
  folder = config.reference_dir or reference_curves.FOLDER
  known = reference_curves.read_all(folder)
  if config.reference:
    named = [one for one in known if one.name == config.reference]
    if not named:
      usable = ", ".join(one.name for one in known)
      raise ValueError(
        f"there is no reference {config.reference!r}; use {usable}."
      )
    other = named[0]
  else:
    names = ("num_hidden_layers", "hidden_size")
    sizes = [int(own.settings[name]) for name in names]
    other = reference_curves.nearest(known, *sizes)
  seeds = " ".join(map(str, other.seeds))
  print(f"The reference is {other.name}, of the seeds {seeds}.")
  for line in reference_curves.differences(own, other):
    print(f"  {line}")
  found = list(reference_curves.leavings(own, other, config.axis))
  for one in found:
    print(reference_curves.describe(one, config.axis))
  if not found:
    print("The run stays within the band.")
  path = config.plot_file or os.path.join(config.output_dir, "compared.png")
  name = os.path.basename(os.path.normpath(config.output_dir))
  reference_curves.draw(path, own, other, config.axis, name)
  print(path)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(CompareConfig)
  command.run(main, __doc__)
