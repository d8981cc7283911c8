"""Fine-tunes BERT on GLUE, XNLI or one's own texts, and classifies."""

import dataclasses
from typing import Any

from absl import flags

from bert_tf import settings
from bert_tf.cli import config_flags, devices
from bert_tf.tasks import config as config_lib
from bert_tf.tasks.classification import config as classification_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartConfig:
  """The model to start from: its files, or a SavedModel that has them."""

  bert_config_file: str | None = settings.setting(
    None, "JSON file with the sizes of the model.", original=True
  )
  vocab_file: str | None = settings.setting(
    None, "The vocabulary of the model.", original=True
  )
  encoder_saved_model: str | None = settings.setting(
    None,
    "A SavedModel of export_savedmodel.py --task=encoder to start from, "
    "instead of --init_checkpoint; --bert_config_file, --vocab_file and "
    "--do_lower_case are then its own.",
  )


def main() -> None:
  """Builds the config from the flags and runs, once or several times."""
  from bert_tf.tasks import sweeps
  from bert_tf.tasks.classification import task

  config = config_flags.build(
    classification_config.ClassificationConfig, **_start()
  )
  _refuse_idle_flags(config.task_name)
  # What absl makes of --grid alone, and of --nogrid.
  grid = flags.FLAGS.grid
  grid = {"true": config_lib.PAPER_GRID, "false": None}.get(grid, grid)
  num_runs = config_flags.build(config_lib.SweepConfig).num_runs
  metrics = task.result_names(task.file_layout(config))
  sweeps.run(config, task.run, metrics, grid, num_runs)


def _start() -> dict[str, Any]:
  """Returns the settings of the model to start from."""
  start = config_flags.build(StartConfig)
  if not start.encoder_saved_model:
    for name in ("bert_config_file", "vocab_file"):
      if not getattr(start, name):
        raise ValueError(f"set --{name}, or --encoder_saved_model.")
    return {
      "bert_config_file": start.bert_config_file,
      "vocab_file": start.vocab_file,
    }
  from bert_tf.export import saved_models

  config_flags.refuse_given(
    ("bert_config_file", "vocab_file", "do_lower_case", "init_checkpoint"),
    "is that of --encoder_saved_model",
  )
  files = saved_models.encoder_files(start.encoder_saved_model)
  return {
    **dataclasses.asdict(files),
    "init_checkpoint": start.encoder_saved_model,
  }


def _refuse_idle_flags(task_name: str) -> None:
  """Raises ValueError for a flag that the task does not have."""
  file_format = task_name.lower()
  idle: tuple[str, ...] = ()
  if file_format not in classification_config.FILE_FORMATS:
    idle = classification_config.OWN_DATA
  if file_format != "xnli":
    idle = (*idle, "xnli_language")
  config_flags.refuse_given(idle, f"means nothing to --task_name={task_name}")


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(
    classification_config.ClassificationConfig,
    omit=(
      *("num_train_steps", "num_warmup_steps"),
      *("bert_config_file", "vocab_file"),
    ),
  )
  config_flags.define(StartConfig)
  config_flags.define(config_lib.SweepConfig)
  # A boolean flag that takes a value: alone it is the paper's grid.
  flags.DEFINE(
    flags.ArgumentParser(),
    "grid",
    None,
    "Fine-tunes with every combination of these settings, num_runs times each, "
    "in a folder of output_dir each; sweep_results.tsv compares them. --grid "
    "alone is the paper's, "
    f'--grid="{config_lib.PAPER_GRID}".',
    boolean=True,
    module_name=config_flags.NEW,
  )
  devices.run(main, __doc__)
