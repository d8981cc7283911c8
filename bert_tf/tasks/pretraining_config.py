"""The settings of pre-training, without TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.training import config as training_config

OBJECTIVES = ("mlm", "ltr", "rtl")

RANDOM, NEIGHBOURS, COOCCURRENCE = INITIAL_VALUES = (
  "random",
  "neighbours",
  "cooccurrence",
)

# How unmasked records are masked.
MASKING = (
  "masked_lm_prob",
  "do_whole_word_mask",
  "mask_prob",
  "keep_prob",
  "random_prob",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig:
  """Settings of `run_pretraining.py`."""

  bert_config_file: str  # Its flag is made by cli/model_flags.py.
  input_file: str = settings.setting(
    help="TFRecord files or globs, separated by commas.", original=True
  )
  train: training_config.PretrainingTrainConfig
  max_seq_length: int = settings.setting(
    128,
    "Word pieces of a record, as the data were made.",
    minimum=1,
    original=True,
  )
  max_predictions_per_seq: int = settings.setting(
    20,
    "Masked tokens of a record: as the data were made, or at most how many of "
    "an unmasked record.",
    minimum=1,
    original=True,
  )
  objective: str | None = settings.setting(
    None,
    "What is predicted: mlm masked pieces; ltr the next piece, each position "
    "attending to itself and those before it; rtl the piece before, attending "
    "to itself and those after it. ltr and rtl need unmasked records, of which "
    "they predict every piece. Default: what output_dir's run.json says, else "
    "the config's attention_direction, else mlm.",
    choices=OBJECTIVES,
  )
  masked_lm_prob: float | None = settings.setting(
    None, "Share of tokens to mask in unmasked records, (0, 1]. Default: 0.15."
  )
  do_whole_word_mask: bool = settings.setting(
    False, "Mask all pieces of a word or none, in unmasked records."
  )
  mask_prob: float | None = settings.setting(
    None,
    "Share of the masked tokens of unmasked records that become [MASK]; "
    "mask_prob, keep_prob and random_prob sum to 1. Default: 0.8.",
  )
  keep_prob: float | None = settings.setting(
    None, "Share of these tokens that stay as they are. Default: 0.1."
  )
  random_prob: float | None = settings.setting(
    None, "Share of these tokens that become a random token. Default: 0.1."
  )
  do_train: bool = settings.setting(False, "Whether to train.", original=True)
  do_eval: bool = settings.setting(
    False, "Whether to evaluate, after training if both.", original=True
  )
  eval_batch_size: int = settings.setting(
    8, "Examples in an evaluation batch.", minimum=1, original=True
  )
  max_eval_steps: int = settings.setting(
    100,
    "Batches of an evaluation at most; a shorter file is read once.",
    minimum=1,
    original=True,
  )
  eval_input_file: str | None = settings.setting(
    None,
    "TFRecords to evaluate on. Default: input_file, with a schedule the last "
    "length's.",
  )
  # If given, its size is checked against the config's. Unmasked records need
  # it.
  vocab_file: str | None = None
  group_by_length: bool = settings.setting(
    False,
    "Makes training batches of records of like length, padded to the longest. "
    "For records that are not packed.",
  )
  no_nsp: bool = settings.setting(
    False, "Whether to train without the next-sentence loss."
  )
  initial_values: str = settings.setting(
    RANDOM,
    "What training starts from without a checkpoint. random: as in the "
    "original. neighbours: heads of the first layer attend to the pieces "
    "beside their own, and the output knows how frequent each piece is. "
    "cooccurrence: besides, embeddings know which pieces stand near each "
    "other, and reach the output nearly whole. Both spare a small model its "
    "first thousands of steps.",
    choices=INITIAL_VALUES,
  )
  schedule: str | None = settings.setting(
    None,
    "Lengths of the records, in the order that they are trained on, each with "
    "its share of the steps, as in 128:0.9,512:0.1. input_file then has files "
    "of all these lengths, which are read off their first record.",
  )

  def __post_init__(self) -> None:
    """Raises ValueError for values that are out of bounds."""
    settings.check(self)
