"""Pre-trains BERT on TFRecords of create_pretraining_data.py."""

from bert_tf.cli import config_flags, devices
from bert_tf.tasks import pretraining_config


def main() -> None:
  """Builds the config from the flags and runs."""
  from bert_tf.tasks import pretraining

  config = config_flags.build(
    pretraining_config.PretrainingConfig, freeze_layers=None
  )
  pretraining.run(config)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(
    pretraining_config.PretrainingConfig, omit=["freeze_layers"]
  )
  devices.run(main, __doc__)
