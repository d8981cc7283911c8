"""Settings of pre-training, without TensorFlow."""

import dataclasses
from typing import Any, ClassVar

from absl import logging

from bert_tf import settings
from bert_tf.data.pretraining.masking import MaskingConfig
from bert_tf.tasks.config import ModelFileSettings
from bert_tf.training.config import PretrainingTrainConfig

RANDOM, NEIGHBOURS = INITIAL_VALUES = ("random", "neighbours")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(MaskingConfig, ModelFileSettings):
  """Settings of `run_pretraining.py`.

  Those of masking are for unmasked records, which are masked while they are
  read; of masked records, max_predictions_per_seq is the number of positions,
  and the size of vocab_file is compared with the config's.
  """

  task: ClassVar[str] = "pretraining"  # As in run.json.
  do_predict: ClassVar[bool] = False
  group_by_length: ClassVar[bool] = False

  input_file: str = settings.data(
    help="The TFRecord files or globs, comma-separated.",
    original=True,
    alternatives=("text",),
  )
  train: PretrainingTrainConfig
  max_seq_length: int = settings.data(
    128,
    "The word pieces of a record, as set when the data were created.",
    minimum=1,
    original=True,
    main=True,
  )
  do_train: bool = settings.steps(
    False, "Whether to train.", original=True, main=True
  )
  do_eval: bool = settings.steps(
    False,
    "Whether to evaluate, which comes after training.",
    original=True,
    main=True,
  )
  eval_batch_size: int = settings.evaluation(
    8,
    "The number of examples in an evaluation batch.",
    minimum=1,
    original=True,
  )
  max_eval_steps: int = settings.evaluation(
    100,
    "The maximum number of batches in an evaluation.",
    minimum=1,
    original=True,
  )
  eval_input_file: str | None = settings.evaluation(
    None, "The TFRecords to evaluate on. Default: input_file."
  )
  no_nsp: bool = settings.training(
    False, "Whether to train without the next-sentence loss."
  )
  initial_values: str = settings.model(
    RANDOM,
    "How to begin without a checkpoint. random is the original's way. With "
    "neighbours, heads of the first layer attend to neighbouring positions, "
    "and the output bias holds the frequencies of pieces, so that small models "
    "learn faster.",
    choices=INITIAL_VALUES,
  )

  def resolve_for_run(self, start: Any, folder: Any) -> "PretrainingConfig":
    """Returns the settings, if they fit; see FineTuningConfig."""
    train = self.train
    start.config.check_lengths(self.max_seq_length, start.config_file)
    if self.max_predictions_per_seq > self.max_seq_length:
      raise ValueError(
        f"max_predictions_per_seq {self.max_predictions_per_seq} exceeds "
        f"max_seq_length {self.max_seq_length}. Lower it."
      )
    if start.vocab_file:
      _ = start.vocab  # Raises ValueError if it does not fit the config.
    if (
      self.do_train and train.init_checkpoint and self.initial_values != RANDOM
    ):
      raise ValueError(
        f"initial_values={self.initial_values} and init_checkpoint "
        f"{train.init_checkpoint} cannot both be set. Leave out one of them."
      )
    steps = train.num_train_steps
    are_few = not train.train_seconds and train.num_warmup_steps >= steps
    if self.do_train and are_few:
      logging.warning(
        f"num_warmup_steps {train.num_warmup_steps} is not below "
        f"num_train_steps {steps}, so the learning rate only rises."
      )
    return self
