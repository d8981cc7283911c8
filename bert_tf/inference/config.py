"""Settings of features and sentence scores. Does not import TensorFlow."""

import dataclasses
import functools

from bert_tf import settings

_data = functools.partial(settings.setting, topic=settings.DATA)
_devices = functools.partial(settings.setting, topic=settings.DEVICES)
_model = functools.partial(settings.setting, topic=settings.MODEL)
_output = functools.partial(settings.setting, topic=settings.OUTPUT)

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
  layers: tuple[int, ...] = _model(
    (-1, -2, -3, -4),
    "Encoder layers, comma-separated; 0 is the first, -1 the last.",
    original=True,
    main=True,
  )
  do_lower_case: bool | None = _model(
    None,
    "Whether to lower-case texts. Default: the value in run.json, otherwise "
    "inferred from the vocabulary, otherwise True.",
    original=True,
    fallback=True,
  )
  max_seq_length: int = _data(
    128,
    "Maximum word pieces of a text or pair, with [CLS] and [SEP].",
    original=True,
    minimum=3,  # [CLS] and two [SEP].
    main=True,
  )
  batch_size: int = _devices(
    32, "Texts per batch.", original=True, minimum=1, main=True
  )
  use_one_hot_embeddings: bool = _devices(
    False,
    "Whether to look up word embeddings by a matmul, for TPUs.",
    original=True,
  )
  pooling: str = _output(
    "none",
    "none: vectors of all tokens. Otherwise one vector per layer: cls, the "
    "vector of [CLS]; mean or max, over all tokens including [CLS] and [SEP].",
    choices=POOLINGS,
    main=True,
  )

  def __post_init__(self) -> None:
    settings.check(self)
    if not self.layers:
      raise ValueError("layers is empty; give one or more, such as -1.")


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
  batch_tokens: int = settings.setting(
    4096,
    "Maximum word pieces of a batch; each piece of a text needs a copy of it.",
    minimum=1,
  )

  def __post_init__(self) -> None:
    settings.check(self)
