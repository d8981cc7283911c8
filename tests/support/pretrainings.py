"""Configs of short pre-trainings."""

from bert_tf.tasks.pretraining.pretraining_config import PretrainingConfig
from bert_tf.training.config import PretrainingTrainConfig


def make(folder, train=(), **values):
  """The config of a training on a folder's `config.json` and `records`.

  By default it takes four steps of four records of 16 pieces, and its run is in
  the folder `out`.
  """
  values = {
    "bert_config_file": str(folder / "config.json"),
    "input_file": str(folder / "records"),
    "max_seq_length": 16,
    "max_predictions_per_seq": 4,
    "do_train": True,
    "eval_batch_size": 4,
    "max_eval_steps": 1,
    **values,
  }
  train = {
    "output_dir": str(folder / "out"),
    "train_batch_size": 4,
    "num_train_steps": 4,
    "num_warmup_steps": 1,
    "use_xla": False,
    **dict(train),
  }
  return PretrainingConfig(train=PretrainingTrainConfig(**train), **values)
