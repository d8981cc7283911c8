r"""Fine-tunes BERT to classify texts: GLUE, XNLI or your own data.

bert-tf classifier --task_name=csv --data_dir=mine --do_train --do_eval \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
"""

from absl import flags

from bert_tf.cli import config_flags, devices, model_flags
from bert_tf.tasks import config as config_lib
from bert_tf.tasks.classification import config as classification_config


def main() -> None:
  """Runs the task of the flags: once, `num_runs` times or over a grid."""
  from bert_tf.tasks import sweeps
  from bert_tf.tasks.classification import task

  files = model_flags.resolve_files()
  config = config_flags.build(
    classification_config.ClassificationConfig, **files
  )
  _refuse_idle_flags(config)
  # absl parses --grid without a value as "true" and --nogrid as "false".
  grid = flags.FLAGS.grid
  grid = {"true": config_lib.PAPER_GRID, "false": None}.get(grid, grid)
  num_runs = config_flags.build(config_lib.SweepConfig).num_runs
  metrics = task.result_names(task.file_layout(config))
  sweeps.run(config, task.run, metrics, grid, num_runs)


def _refuse_idle_flags(
  config: classification_config.ClassificationConfig,
) -> None:
  """Raises ValueError for a flag that the task does not use."""
  if config.processor:
    config_flags.refuse_given(
      classification_config.FILES, "does not apply to --processor"
    )
    return
  task_name = str(config.task_name).lower()
  idle: tuple[str, ...] = ()
  if task_name not in classification_config.FILE_FORMATS:
    idle = classification_config.OWN_DATA
  if task_name != "xnli":
    idle = (*idle, "xnli_language")
  config_flags.refuse_given(
    idle, f"does not apply to --task_name={config.task_name}"
  )


def run() -> None:
  """Runs the command; never returns."""
  config_flags.define(classification_config.ClassificationConfig)
  config_flags.define(model_flags.ModelFlags)
  config_flags.define(config_lib.SweepConfig)
  # A boolean flag that also takes a value; --grid alone is the paper's grid.
  flags.DEFINE(
    flags.ArgumentParser(),
    "grid",
    None,
    "Fine-tune with each combination of these settings, num_runs times each, "
    "in subfolders of output_dir; sweep_results.tsv compares the results. "
    "--grid without a value is the grid of the paper, "
    f'--grid="{config_lib.PAPER_GRID}".',
    boolean=True,
    module_name=config_flags.NEW,
  )
  devices.run(main, __doc__)
