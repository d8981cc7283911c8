r"""Fine-tunes BERT to recognize named entities.

bert-tf ner --data_dir=conll --model=cased_L-12_H-768_A-12 \
    --do_train --do_eval --do_predict --output_dir=out
"""

from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from bert_tf.tasks.ner import config as ner_config


def main() -> None:
  """Trains, evaluates and predicts, as the flags say."""
  from bert_tf.tasks.ner import task

  config = config_flags.build(
    ner_config.NerConfig,
    **model_flags.resolve_files(),
    **fine_tuning_flags.chosen_steps(),
  )
  task.run(config)


def run() -> None:
  """Runs the command; never returns."""
  fine_tuning_flags.define(ner_config.NerConfig, ("do_train", "do_eval"))
  devices.run(main, __doc__)
