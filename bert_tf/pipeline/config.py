"""Settings of pre-training from text, and defaults by model size.

Does not import TensorFlow.
"""

import dataclasses
import os
from typing import Any

from bert_tf import settings
from bert_tf.tasks.pretraining.pretraining_config import NEIGHBOURS, RANDOM
from bert_tf.text import text_config, vocabulary
from bert_tf.training.config import ComputeConfig


@dataclasses.dataclass(frozen=True)
class Size:
  """A model size and its training settings.

  Small models need larger learning rates, and initial weights of about
  1 / sqrt(hidden_size); the original's 0.02 suits a width of 768. They need no
  dropout if they see their text only a few times. With the original's settings
  the smallest model learns too little in minutes, so it starts with local
  attention heads, masks more words and does not predict next sentences
  (docs/pretraining.md).
  """

  num_hidden_layers: int
  hidden_size: int
  train_batch_size: int
  learning_rate: float
  vocab_size: int
  dropout: float
  initial_values: str = RANDOM
  masked_lm_prob: float = 0.15
  no_nsp: bool = False

  @property
  def bert_config(self) -> dict[str, Any]:
    """The content of bert_config.json."""
    width = self.hidden_size
    return {
      "vocab_size": self.vocab_size,
      "hidden_size": width,
      "num_hidden_layers": self.num_hidden_layers,
      "num_attention_heads": width // 64,
      "intermediate_size": 4 * width,
      "max_position_embeddings": 512,
      "type_vocab_size": 2,
      "initializer_range": 0.02 if width >= 768 else round(width**-0.5, 3),
      "hidden_dropout_prob": self.dropout,
      "attention_probs_dropout_prob": self.dropout,
    }

  def max_predictions_per_seq(self, max_seq_length: int) -> int:
    """Returns the maximum number of masked word pieces per sequence."""
    num_masked = max(1, round(self.masked_lm_prob * max_seq_length)) + 1
    return min(num_masked, max_seq_length)


# Sizes of the small models released in 2020, and of BERT-Base.
SIZES = {
  "tiny": Size(2, 128, 32, 1e-3, 8_000, 0.0, NEIGHBOURS, 0.25, no_nsp=True),
  "mini": Size(4, 256, 32, 5e-4, 8_000, 0.0),
  "small": Size(4, 512, 32, 4e-4, 16_000, 0.0),
  "medium": Size(8, 512, 32, 3e-4, 30_522, 0.1),
  "base": Size(12, 768, 64, 1e-4, 30_522, 0.1),
}

# Languages with thousands of characters: Chinese ones, Japanese and Korean.
MANY_CHARACTERS = "cdo cpx gan hak hsn ja ko lzh nan wuu yue zh".split()

# Languages without upper case in which non-spacing marks are part of letters,
# such as the vowels of Thai and Hindi and the voicing of kana. Lower-casing
# would strip these marks as accents, and split Hangul into its parts. Arabic
# and Hebrew are missing because most of their texts omit the marks anyway.
MARKS_ARE_LETTERS = (
  "anp as awa ban-bali bh bho blk bn bo bpy bug-bugi dty dv dz gom gu hi ja "
  "kjp km kn ko ksw lo mag mai ml mnw mr my ne new or pa sa sat si ta tcy te "
  "th".split()
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineConfig(text_config.PydocConfig):
  """Settings of `bert-tf pretrain --text`."""

  text: str = settings.data(
    help="The text to pre-train on: comma-separated files and globs of plain "
    "text, JSON lines or Parquet, which may end in .gz or .bz2. pydoc stands "
    "for Python's documentation."
  )
  output_dir: str = settings.checkpoints(
    help="The folder for the model. Data go to its subfolder data/.",
    writes="folder",
  )
  model: str | None = settings.model(
    None,
    "The model to continue, such as a released one. Default: a new model.",
    main=True,
  )
  size: str | None = settings.model(
    None,
    "The size of a new model, as layers x width: tiny 2 x 128, mini 4 x 256, "
    "small 4 x 512, medium 8 x 512, base 12 x 768. Default: tiny.",
    choices=tuple(SIZES),
    main=True,
  )
  train_hours: float = settings.training(
    0.0,
    "How many hours to train. The run measures its speed once and writes the "
    "number of steps that fill this time into run.json. Data, evaluations and "
    "checkpoints take extra time.",
    minimum=0.0,
    alternatives=("train_minutes",),
  )
  train_minutes: float = settings.training(
    0.0, "Minutes to train, added to train_hours.", minimum=0.0
  )
  reading: text_config.TextConfig
  do_lower_case: bool | None = settings.model(
    None,
    "Whether to lower-case the text and strip accents. Default: auto (None in "
    "Python), which follows --model or the language.",
    main=True,
  )
  vocab_size: int | None = settings.model(
    None,
    "The number of entries in the vocabulary of a new model. Default: by size.",
    # A character and its ## piece.
    minimum=len(vocabulary.reserved_tokens()) + 2,
  )
  max_seq_length: int = settings.data(
    128, "Maximum length in word pieces.", minimum=16, maximum=512, main=True
  )
  eval_fraction: float = settings.data(
    0.05,
    "The fraction of documents that are held out for evaluation.",
    minimum=0.001,
    maximum=0.5,
  )
  train_batch_size: int | None = settings.training(
    None,
    "The size of a training batch. Default: by size, 32 with --model.",
    minimum=1,
    main=True,
  )
  learning_rate: float | None = settings.training(
    None, "The peak learning rate. Default: by size.", minimum=1e-9, main=True
  )
  num_workers: int = settings.devices(
    os.cpu_count() or 1,
    "The number of processes that prepare the data.",
    minimum=1,
    main=True,
  )
  seed: int = settings.training(
    12345, "The seed of initial values, dropout and the order of the data."
  )
  compute: ComputeConfig = ComputeConfig()

  def __post_init__(self) -> None:
    settings.check(self)
    if not self.train_seconds:
      raise ValueError("Set `train_hours` or `train_minutes`.")
    if "," in self.output_dir:
      raise ValueError(f"`output_dir` {self.output_dir} must not have a comma.")
    for name in ("size", "vocab_size"):
      value = getattr(self, name)
      if self.model and value is not None:
        raise ValueError(
          f"{name}={value} is for a new model, but model {self.model} exists; "
          f"leave out `{name}`."
        )

  @property
  def train_seconds(self) -> float:
    """Training time in seconds."""
    return 3600 * self.train_hours + 60 * self.train_minutes

  def is_in(self, languages: list[str]) -> bool:
    """Returns whether the text is in one of the languages and their script."""
    code = text_config.normalize_language(self.reading.language)
    base, *subtags = code.split("-")
    # Text in Latin script has capitals and few characters in any language.
    return "latn" not in subtags and not {code, base}.isdisjoint(languages)

  def file(self, name: str) -> str:
    """Returns the path of a file in the data folder."""
    return os.path.join(self.output_dir, "data", name)
