"""Settings of feature extraction. Does not import TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.settings import setting

OUTPUT_FORMATS = ("jsonl", "npz")
POOLINGS = ("none", "cls", "mean", "max")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionConfig:
  """The features to compute, and the model."""

  # A checkpoint prefix or a folder. The files may be None for those next to
  # it. cli/model_flags.py defines the flags.
  init_checkpoint: str
  bert_config_file: str | None = None
  vocab_file: str | None = None
  layers: tuple[int, ...] = setting(
    (-1, -2, -3, -4),
    "Encoder layers; 0 is the first, -1 the last.",
    original=True,
  )
  do_lower_case: bool | None = setting(
    None,
    "Whether texts are lower-cased. Default: what the model's run.json says, "
    "else what the vocabulary shows, else True.",
    original=True,
    otherwise=True,
  )
  max_seq_length: int = setting(
    128,
    "Word pieces of a text or pair, [CLS] and [SEP] included; longer ones are "
    "cut.",
    original=True,
    minimum=3,  # [CLS] and two [SEP].
  )
  batch_size: int = setting(
    32, "Texts that are computed together.", original=True, minimum=1
  )
  use_one_hot_embeddings: bool = setting(
    False,
    "Whether word pieces are looked up by a matrix product: the same result, "
    "slower except on TPUs.",
    original=True,
  )
  pooling: str = setting(
    "none",
    "none: vectors of all tokens; else one vector of the text for each layer: "
    "cls, that of [CLS]; mean or max, over all tokens with [CLS] and [SEP].",
    choices=POOLINGS,
  )
  attention_probs: bool = setting(
    False,
    "Whether the attention weights of the layers are written too: [heads, "
    "from token, to token]. Not with a pooling.",
  )

  def __post_init__(self) -> None:
    """Raises ValueError for a value out of range or excluded by another."""
    settings.check(self)
    if not self.layers:
      raise ValueError("layers is empty; name one or more, such as -1.")
    if self.attention_probs and self.pooling != "none":
      raise ValueError(
        "attention_probs are of tokens, which pooling="
        f"{self.pooling} leaves out; set one of the two."
      )
