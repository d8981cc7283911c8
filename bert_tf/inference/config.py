"""Settings of features and sentence scores. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.export import config as export_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionConfig(export_config.ModelFiles):
  """Which features to compute, and with which model.

  The fields are flags of `bert-tf extract-features`. `init_checkpoint` is a
  model folder or a checkpoint, `layers` counts from 0 or from -1, the last, and
  `pooling` is "none" for a vector of each word piece, or "cls", "mean" or "max"
  for one of each text. If a file is None, the one in the model's folder counts.

  Examples:
    >>> config = bert_tf.ExtractionConfig(
    ...   init_checkpoint="quickstart", layers=(-1,), pooling="mean"
    ... )
    >>> config.max_seq_length, config.batch_size
    (128, 32)
  """

  layers: tuple[int, ...] = settings.model(
    (-1, -2, -3, -4),
    "The encoder layers, comma-separated; 0 is the first and -1 the last.",
    original=True,
    main=True,
  )
  do_lower_case: bool | None = settings.model(
    None,
    "Whether to lower-case texts. Default: what the model's run.json says, "
    "else what the vocabulary shows, else True.",
    original=True,
    fallback=True,
  )
  max_seq_length: int = settings.data(
    128,
    "The maximum length of a text or pair in word pieces.",
    original=True,
    minimum=3,  # [CLS] and two [SEP].
    main=True,
  )
  batch_size: int = settings.devices(
    32, "The number of texts in a batch.", original=True, minimum=1, main=True
  )
  use_one_hot_embeddings: bool = settings.devices(
    False,
    "Whether to look up word embeddings by a matmul, for TPUs.",
    original=True,
  )
  pooling: str = settings.output(
    "none",
    "Which vectors each layer gives: none, of all tokens; cls, of [CLS]; mean "
    "or max, over all tokens with [CLS] and [SEP].",
    choices=("none", "cls", "mean", "max"),
    main=True,
  )

  def __post_init__(self) -> None:
    settings.check(self)
    if not self.layers:
      raise ValueError("layers is empty; give one or more, such as -1.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringConfig(export_config.ModelFiles):
  """The model that scores sentences, and the size of its batches.

  The fields are flags of `bert-tf score`. `batch_tokens` is the maximum number
  of word pieces in a batch, where each piece of a text needs a copy of it.

  Examples:
    >>> config = bert_tf.ScoringConfig(
    ...   init_checkpoint="quickstart", batch_tokens=1024
    ... )
    >>> scorer = bert_tf.SentenceScorer(config)
  """

  do_lower_case: bool | None = settings.saved_setting(
    ExtractionConfig, "do_lower_case"
  )
  batch_tokens: int = settings.setting(
    4096,
    "The maximum number of word pieces in a batch, where each piece of a text "
    "needs a copy of the text.",
    minimum=1,
  )

  def __post_init__(self) -> None:
    settings.check(self)
