"""What the scripts that fine-tune share: settings, their checks, and steps."""

import dataclasses

from absl import logging

from bert_tf import modeling, tokenization
from bert_tf.training import config as training_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
  """What each of them is asked for.

  Attributes:
    bert_config_file: the model's sizes.
    vocab_file: the model's vocabulary.
    train: how to train; its steps are set from the data.
    do_lower_case: whether the vocabulary is lower-cased.
    do_train: whether to train.
    do_predict: whether to predict, after training and evaluation.
    predict_batch_size: examples a batch of the prediction.
    num_train_epochs: passes over the training examples; may be a fraction.
    warmup_proportion: share of the steps with a rising learning rate, in
      [0, 1].
  """

  bert_config_file: str
  vocab_file: str
  train: training_config.TrainConfig
  do_lower_case: bool = True
  do_train: bool = False
  do_predict: bool = False
  predict_batch_size: int = 8
  num_train_epochs: float = 3.0
  warmup_proportion: float = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataDirConfig(FineTuningConfig):
  """What those are asked for that train, evaluate and predict by three files.

  Attributes:
    data_dir: folder of these files.
    max_seq_length: word pieces an example.
    do_eval: whether to evaluate, after training if both.
    eval_batch_size: examples a batch of the evaluation.
  """

  data_dir: str = ""
  max_seq_length: int = 128
  do_eval: bool = False
  eval_batch_size: int = 8


def check(
  config: DataDirConfig, bert_config: modeling.BertConfig, vocab_size: int
) -> None:
  """Raises ValueError where flags, config and vocabulary do not fit."""
  if not (config.do_train or config.do_eval or config.do_predict):
    raise ValueError(
      "nothing to do: set --do_train, --do_eval or --do_predict."
    )
  tokenization.validate_case_matches_checkpoint(
    config.do_lower_case, config.train.init_checkpoint
  )
  bert_config.check_lengths(config.max_seq_length, config.bert_config_file)
  bert_config.check_vocab(
    vocab_size, config.vocab_file, config.bert_config_file
  )


def train_config(
  config: FineTuningConfig, num_examples: int, noun: str, default_metric: str
) -> training_config.TrainConfig:
  """Returns how to train, with the steps that the examples make.

  Args:
    config: of the run.
    num_examples: examples of a pass.
    noun: what they are, in the plural.
    default_metric: the best_metric if the config has none.

  Raises:
    ValueError: if they are fewer than a batch, or not one step.
  """
  train, batch_size = config.train, config.train.train_batch_size
  if num_examples < batch_size:
    raise ValueError(
      f"{num_examples} {noun} are fewer than one batch of {batch_size}; lower "
      "--train_batch_size."
    )
  # As the original computed both: rounded down.
  num_train_steps = int(num_examples / batch_size * config.num_train_epochs)
  if num_train_steps < 1:
    raise ValueError(
      f"num_train_epochs {config.num_train_epochs} of {num_examples} {noun} is "
      f"less than one batch of {batch_size}; raise it."
    )
  num_warmup_steps = int(num_train_steps * config.warmup_proportion)
  logging.info(
    "%d %s, %d steps of %d, %d of them warm-up.",
    num_examples,
    noun,
    num_train_steps,
    batch_size,
    num_warmup_steps,
  )
  return dataclasses.replace(
    train,
    num_train_steps=num_train_steps,
    num_warmup_steps=num_warmup_steps,
    best_metric=train.best_metric or default_metric,
  )
