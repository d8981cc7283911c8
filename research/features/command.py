r"""Trains a BiLSTM on the word vectors of a frozen BERT.

python -m research.features.command --data_dir=conll --do_train --do_eval \
    --model=cased_L-12_H-768_A-12 --learning_rate=1e-3 --output_dir=out

Stores the vectors once in output_dir. All other flags are those of
bert-tf ner.
"""

from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from research.features import config as config_lib


def main() -> None:
  """Trains, evaluates and predicts, as the flags say."""
  from research.features import task

  task.run(
    config_flags.build(
      config_lib.FeaturesConfig,
      **model_flags.resolve_files(),
      **fine_tuning_flags.chosen_steps(),
    )
  )


if __name__ == "__main__":
  fine_tuning_flags.define(config_lib.FeaturesConfig, ("do_train", "do_eval"))
  devices.run(main, __doc__)
