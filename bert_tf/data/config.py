"""Settings of pre-training data. Imports no TensorFlow."""

import dataclasses
import functools

from bert_tf import settings
from bert_tf.data import masking, packing

_model = functools.partial(settings.setting, topic=settings.MODEL)
_instances = functools.partial(settings.setting, topic=settings.INSTANCES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingDataConfig:
  """Settings of pre-training data; raises ValueError for bad values."""

  vocab_file: str = _model(help="Vocabulary, one token a line.", original=True)
  do_lower_case: bool = _model(
    True,
    "Lower-case the text: True for uncased vocabularies, False for cased ones.",
    original=True,
    main=True,
  )
  strip_accents: bool | None = _model(
    None, "Drop accents. Default: as do_lower_case."
  )
  max_seq_length: int = _instances(
    128,
    "Length of an instance in tokens, special tokens and padding included.",
    original=True,
    main=True,
  )
  random_seed: int = _instances(
    12345, "Seed of all random draws.", original=True
  )
  dupe_factor: int = _instances(
    10,
    "Number of passes over the text, each with other masks and pairs.",
    minimum=1,
    original=True,
    main=True,
  )
  short_seq_prob: float = _instances(
    0.1,
    "Fraction of documents whose instances have a random shorter length.",
    minimum=0,
    maximum=1,
    original=True,
  )
  no_nsp: bool = _instances(
    False, "Make instances of one segment, with next_sentence_labels 0."
  )
  mask: bool = settings.setting(
    True,
    "Mask the instances. With --nomask, run_pretraining does, in each epoch "
    "anew.",
    topic=settings.MASKING,
  )
  pack_sequences: bool = _instances(
    False, "Pack short instances into one record, to save padding."
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
  def num_predictions(self) -> int:
    """How many masked positions a record has room for."""
    config, length = self.masking_config, self.max_seq_length
    if self.mask and self.pack_sequences:
      num_instances = packing.max_instances(length)
      return config.num_to_predict_in_row(length, num_instances)
    return config.max_predictions_per_seq if self.mask else 0
