"""Settings of pre-training data. Imports no TensorFlow."""

import dataclasses

from bert_tf import settings
from bert_tf.data import packing
from bert_tf.data.pretraining import masking


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig:
  """Settings of pre-training data; raises ValueError for bad values."""

  vocab_file: str = settings.model(help="The vocabulary file.", original=True)
  do_lower_case: bool = settings.model(
    True,
    "Whether to lower-case the text, as uncased vocabularies need it.",
    original=True,
    main=True,
  )
  strip_accents: bool | None = settings.model(
    None, "Whether to strip accents. Default: the same as do_lower_case."
  )
  max_seq_length: int = settings.instances(
    128,
    "The word pieces of an instance, with special tokens and padding.",
    original=True,
    main=True,
  )
  random_seed: int = settings.instances(
    12345, "The seed of all random draws.", original=True
  )
  dupe_factor: int = settings.instances(
    10,
    "The number of passes over the text, each with other masks and pairs.",
    minimum=1,
    original=True,
    main=True,
  )
  short_seq_prob: float = settings.instances(
    0.1,
    "The fraction of documents whose instances get a random shorter length.",
    minimum=0,
    maximum=1,
    original=True,
  )
  no_nsp: bool = settings.instances(
    False, "Whether instances have one segment, and no next-sentence task."
  )
  mask: bool = settings.masking(
    True,
    "Whether to mask the instances. With --nomask, bert-tf pretrain masks "
    "them, anew in each epoch.",
  )
  pack_sequences: bool = settings.instances(
    False, "Whether to pack short instances into one record to save padding."
  )
  masking_config: masking.MaskingConfig = masking.MaskingConfig()

  def __post_init__(self) -> None:
    settings.check(self)
    # A short target is drawn from 2 to `max_num_tokens`.
    if self.max_num_tokens < 2:
      least = self.max_seq_length - self.max_num_tokens + 2
      raise ValueError(
        f"max_seq_length {self.max_seq_length} must be at least {least}."
      )
    max_predictions = self.masking_config.max_predictions_per_seq
    if self.mask and max_predictions > self.max_seq_length:
      raise ValueError(
        f"max_predictions_per_seq {max_predictions} exceeds max_seq_length "
        f"{self.max_seq_length}."
      )

  @property
  def max_num_tokens(self) -> int:
    """The largest number of text tokens in an instance."""
    # [CLS] a [SEP], or [CLS] a [SEP] b [SEP].
    return self.max_seq_length - (2 if self.no_nsp else 3)

  @property
  def max_instances(self) -> int:
    """How many packed instances a record has room for; 0 if none is packed."""
    if not self.pack_sequences:
      return 0
    return packing.max_instances(self.max_seq_length)

  @property
  def num_predictions(self) -> int:
    """How many masked positions a record has room for."""
    config, length = self.masking_config, self.max_seq_length
    if self.mask and self.pack_sequences:
      return config.num_to_predict_in_row(length, self.max_instances)
    return config.max_predictions_per_seq if self.mask else 0
