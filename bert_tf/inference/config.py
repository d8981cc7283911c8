"""Settings of features and sentence scores. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.settings import setting

OUTPUT_FORMATS = ("jsonl", "npz")
POOLINGS = ("none", "cls", "mean", "max")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionConfig:
  """The features to compute, and the model."""

  # A checkpoint prefix or a folder. If a file is None, the one next to the
  # checkpoint is used. cli/model_flags.py defines the flags of these three.
  init_checkpoint: str
  bert_config_file: str | None = None
  vocab_file: str | None = None
  layers: tuple[int, ...] = setting(
    (-1, -2, -3, -4),
    "Encoder layers, comma-separated; 0 is the first, -1 the last.",
    original=True,
    topic=settings.MODEL,
    main=True,
  )
  do_lower_case: bool | None = setting(
    None,
    "Whether to lower-case texts. Default: the value in run.json, otherwise "
    "inferred from the vocabulary, otherwise True.",
    original=True,
    fallback=True,
    topic=settings.MODEL,
  )
  max_seq_length: int = setting(
    128,
    "Maximum word pieces of a text or pair, with [CLS] and [SEP].",
    original=True,
    minimum=3,  # [CLS] and two [SEP].
    topic=settings.DATA,
    main=True,
  )
  batch_size: int = setting(
    32,
    "Texts per batch.",
    original=True,
    minimum=1,
    topic=settings.DEVICES,
    main=True,
  )
  use_one_hot_embeddings: bool = setting(
    False,
    "Whether to look up word embeddings by a matmul, for TPUs.",
    original=True,
    topic=settings.DEVICES,
  )
  pooling: str = setting(
    "none",
    "none: vectors of all tokens. Otherwise one vector per layer: cls, the "
    "vector of [CLS]; mean or max, over all tokens including [CLS] and [SEP].",
    choices=POOLINGS,
    topic=settings.OUTPUT,
    main=True,
  )

  def __post_init__(self) -> None:
    """Raises ValueError for a value out of range or excluded by another."""
    settings.check(self)
    if not self.layers:
      raise ValueError("layers is empty; set one or more, such as -1.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringConfig:
  """The model that scores sentences, and the size of its batches."""

  # As in ExtractionConfig.
  init_checkpoint: str
  bert_config_file: str | None = None
  vocab_file: str | None = None
  do_lower_case: bool | None = settings.saved_setting(
    ExtractionConfig, "do_lower_case"
  )
  batch_tokens: int = setting(
    4096,
    "Maximum word pieces of a batch; each piece of a text needs a copy of it.",
    minimum=1,
  )

  def __post_init__(self) -> None:
    """Raises ValueError for a value out of range."""
    settings.check(self)
