"""The settings of feature extraction, without TensorFlow."""

import dataclasses

from bert_tf import settings

POOLINGS = ("none", "cls", "mean", "max")
OUTPUT_FORMATS = ("jsonl", "npz")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtractionConfig:
  """What is computed, and with which model."""

  bert_config_file: str = settings.setting(
    help="JSON file with the sizes of the model.", original=True
  )
  vocab_file: str = settings.setting(
    help="The vocabulary of the model.", original=True
  )
  init_checkpoint: str = settings.setting(
    help="The model's checkpoint, usually a BERT.", original=True
  )
  layers: tuple[int, ...] = settings.setting(
    (-1, -2, -3, -4),
    "Encoder layers with commas between them; 0 is the first, -1 the last.",
    original=True,
  )
  do_lower_case: bool = settings.setting(
    True, "Whether the model is for lower-cased text.", original=True
  )
  max_seq_length: int = settings.setting(
    128,
    "Word pieces of a line, [CLS] and [SEP] included; longer lines are cut.",
    minimum=3,  # [CLS] and two [SEP].
    original=True,
  )
  batch_size: int = settings.setting(
    32, "Lines in a batch.", minimum=1, original=True
  )
  use_one_hot_embeddings: bool = settings.setting(
    False,
    "Whether word pieces are looked up by a matrix product: the same result, "
    "slower but on TPUs.",
    original=True,
  )
  pooling: str = settings.setting(
    "none",
    "What is written of a line: none, every token's vectors; else one vector a "
    "layer: cls, that of [CLS]; mean or max, over all tokens with [CLS] and "
    "[SEP].",
    choices=POOLINGS,
  )
  attention_probs: bool = settings.setting(
    False,
    "Whether the attention probabilities of the layers are written too, "
    "[heads, from token, to token]; without pooling only.",
  )

  def __post_init__(self) -> None:
    """Raises ValueError for values that are out of range or contradict."""
    settings.check(self)
    if not self.layers:
      raise ValueError("layers is empty; name one or more, such as -1.")
    if self.attention_probs and self.pooling != "none":
      raise ValueError(
        "attention_probs are of tokens, which pooling="
        f"{self.pooling} leaves out; set one of the two."
      )
