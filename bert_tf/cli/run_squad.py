r"""Fine-tunes BERT to answer questions, as in SQuAD.

bert-tf squad --do_train --train_file=train-v1.1.json \
    --do_predict --predict_file=dev-v1.1.json \
    --model=uncased_L-12_H-768_A-12 --output_dir=out
"""

import dataclasses

from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from bert_tf.tasks.squad import config as squad_config


def main() -> None:
  """Trains and predicts as the flags say."""
  from bert_tf.tasks.squad import task

  config = config_flags.build(
    squad_config.SquadConfig,
    **model_flags.resolve_files(),
    **fine_tuning_flags.chosen_steps(),
  )
  # Evaluation is prediction with scores, so it uses predict_batch_size.
  config = dataclasses.replace(
    config, eval_batch_size=config.predict_batch_size
  )
  task.run(config)


def run() -> None:
  """Runs the command; never returns."""
  fine_tuning_flags.define(squad_config.SquadConfig, ("do_train", "do_predict"))
  devices.run(main, __doc__)
