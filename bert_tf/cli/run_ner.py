r"""Fine-tunes BERT to recognize named entities.

bert-tf ner --data_dir=conll --model=cased_L-12_H-768_A-12 \
    --do_train --do_eval --do_predict --output_dir=out
"""

from typing import Any

from bert_tf.cli import config_flags, devices, fine_tuning_flags, model_flags
from bert_tf.tasks.ner import config as ner_config


def main() -> None:
  """Trains, evaluates and predicts, as the flags say."""
  from bert_tf.tasks.ner import task

  changes: dict[str, Any] = {
    **model_flags.resolve_files(),
    **fine_tuning_flags.chosen_steps(),
  }
  config = config_flags.build(ner_config.NerConfig, **changes)
  if config.approach != "features":
    if config_flags.is_given("feature_layers"):
      raise ValueError("--feature_layers needs --approach=features.")
  elif not config_flags.is_given("learning_rate"):
    changes["learning_rate"] = ner_config.FEATURE_LEARNING_RATE
  config = config_flags.build(ner_config.NerConfig, **changes)
  task.run(config)


def run() -> None:
  """Runs the command; never returns."""
  fine_tuning_flags.define(ner_config.NerConfig, ("do_train", "do_eval"))
  devices.run(main, __doc__)
