r"""Fine-tunes BERT on SWAG or other multiple choice.

bert-tf swag --data_dir=swag --do_train --do_eval \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
"""

from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from bert_tf.tasks.swag import config as swag_config


def main() -> None:
  """Trains, evaluates and predicts, as the flags say."""
  from bert_tf.tasks.swag import task

  files = model_flags.resolve_files()
  config = config_flags.build(
    swag_config.SwagConfig, **files, **fine_tuning_flags.chosen_steps()
  )
  if config.task_name.lower() == "swag":
    config_flags.refuse_given(
      swag_config.OWN_DATA, "does not apply to --task_name=swag"
    )
  task.run(config)


def run() -> None:
  """Runs the command; never returns."""
  fine_tuning_flags.define(swag_config.SwagConfig, ("do_train", "do_eval"))
  devices.run(main, __doc__)
