r"""Fine-tunes BERT to classify texts or pairs of texts.

bert-tf classifier --data_file=reviews.csv --text_a_column=review \
    --label_column=stars --model=uncased_L-12_H-768_A-12 \
    --output_dir=out --do_train --do_eval
"""

from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from bert_tf.tasks.classification import config as classification_config


def main() -> None:
  """Trains, evaluates and predicts, as the flags say."""
  from bert_tf.tasks.classification import task

  files = model_flags.resolve_files()
  config = config_flags.build(
    classification_config.ClassificationConfig,
    **files,
    **fine_tuning_flags.chosen_steps(),
  )
  _refuse_idle_flags(config)
  task.run(config)


def _refuse_idle_flags(
  config: classification_config.ClassificationConfig,
) -> None:
  if config.processor:
    config_flags.refuse_given(
      classification_config.FILES, "does not apply to --processor"
    )
    return
  if not config.data_file:
    config_flags.refuse_given(["eval_fraction"], "is for --data_file")
  task_name = config.file_format or str(config.task_name)
  idle: tuple[str, ...] = ()
  if not config.file_format:
    idle = classification_config.OWN_DATA
  if task_name.lower() != "xnli":
    idle = (*idle, "xnli_language")
  config_flags.refuse_given(idle, f"does not apply to --task_name={task_name}")


def run() -> None:
  """Runs the command; never returns."""
  fine_tuning_flags.define(
    classification_config.ClassificationConfig, ("do_train", "do_eval")
  )
  devices.run(main, __doc__)
