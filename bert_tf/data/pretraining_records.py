"""Records of pre-training: what they hold, and how they become batches."""

import dataclasses
import functools

import tensorflow as tf

from bert_tf.data import dynamic_masking, input_pipeline, padding


@dataclasses.dataclass(frozen=True)
class Form:
  """What pre-training records hold."""

  max_seq_length: int  # F.
  # Masked pieces of a record at most, P; 0 if the records are not masked.
  max_predictions_per_seq: int
  # Instances that share a record at most, K; 0 if each has its own.
  max_instances: int = 0

  @classmethod
  def of(cls, path: str) -> "Form":
    """Returns the form of a file, by its first record.

    Raises:
      ValueError: if it has no input_ids, or is no record.
    """
    features = input_pipeline.first_features(path)

    def size(name: str) -> int:
      return len(features[name].int64_list.value) if name in features else 0

    if not size("input_ids"):
      raise ValueError(f"{path} has no records of pre-training.")
    return cls(
      size("input_ids"), size("masked_lm_positions"), size("cls_positions")
    )

  @property
  def is_masked(self) -> bool:
    """Whether the records were masked when they were made."""
    return self.max_predictions_per_seq > 0

  def spec(self) -> input_pipeline.Spec:
    """Returns the features of a record: names, shapes, dtypes."""
    return input_pipeline.pretraining_spec(*dataclasses.astuple(self))

  def __str__(self) -> str:
    kind = "masked" if self.is_masked else "unmasked"
    return f"packed {kind}" if self.max_instances else kind


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
  """Files of one form, and what is predicted of them."""

  files: input_pipeline.RecordFiles
  form: Form
  # Masks records that are not masked.
  masker: dynamic_masking.DynamicMasker | None = None
  # "ltr" or "rtl" where neighbours are predicted, of records without masks.
  shift: str | None = None
  # Whether training batches hold records of like length, padded to the longest.
  group_by_length: bool = False
  # Whether these have few widths; see padding.cut_padding.
  has_few_widths: bool = False

  @property
  def spec(self) -> input_pipeline.Spec:
    """The features of a record: names, shapes, dtypes."""
    return self.form.spec()

  def check(self, vocab_size: int) -> None:
    """Raises ValueError naming a file that does not fit the form or the model.

    `vocab_size` is the model's.
    """
    first = self.files.paths[0]
    for path in self.files.paths:
      found, expected = str(Form.of(path)), str(self.form)
      if found != expected:
        raise ValueError(
          f"{path} holds {found} records and {first} {expected} ones; give "
          "files that were made with the same `mask` and `pack_sequences`."
        )
    input_pipeline.check_first_records(self.files, self.spec, vocab_size)

  def check_begins(self, cls_id: int, vocab_file: str) -> None:
    """Raises ValueError if a first record does not begin with that id."""
    for path in self.files.paths:
      ids = input_pipeline.first_features(path)["input_ids"].int64_list.value
      if ids[0] != cls_id:
        raise ValueError(
          f"{path} begins with the word-piece id {ids[0]}, but [CLS] of "
          f"{vocab_file} is {cls_id}; give the vocabulary that the records "
          "were made with."
        )

  def training_dataset(
    self,
    batch_size: int,
    seed: int,
    steps_done: int,
    vocab_size: int,
    type_vocab_size: int,
  ) -> tf.data.Dataset:
    """Returns endless labelled batches; see input_pipeline.training_dataset.

    With group_by_length the order of an epoch depends on batch_size too.
    """
    batches = input_pipeline.training_dataset(
      self.files,
      self.spec,
      batch_size,
      seed,
      steps_done,
      vocab_size,
      self.group_by_length,
      type_vocab_size,
    )
    batches = self._masked(batches, batch_size, steps_done, is_training=True)
    if self.group_by_length:
      batches = padding.cut_padding(
        batches,
        self.form.max_seq_length,
        has_few_widths=self.has_few_widths,
      )
    return self._shifted(batches)

  def evaluation_dataset(
    self, batch_size: int, vocab_size: int, type_vocab_size: int
  ) -> tf.data.Dataset:
    """Returns labelled batches of every record once, in order.

    The last batch may be short. Each record has the masks of epoch 0.
    """
    batches = input_pipeline.finite_dataset(
      self.files, self.spec, batch_size, vocab_size, type_vocab_size
    )
    return self._shifted(
      self._masked(batches, batch_size, 0, is_training=False)
    )

  def _masked(
    self,
    batches: tf.data.Dataset,
    batch_size: int,
    steps_done: int,
    is_training: bool,
  ) -> tf.data.Dataset:
    """Masks batches, the first of which comes after `steps_done`."""
    masker, num_records = self.masker, self.files.num_records
    if masker is None:
      return batches

    @tf.autograph.experimental.do_not_convert
    def mask(
      step: tf.Tensor, features: dynamic_masking.Features
    ) -> dynamic_masking.Features:
      size = tf.shape(features["input_ids"], tf.int64)[0]
      numbers = step * batch_size + tf.range(size)
      epochs = numbers // num_records if is_training else 0 * numbers
      return masker.mask(features, epochs, numbers % num_records)

    return batches.enumerate(steps_done).map(mask).prefetch(2)

  def _shifted(self, batches: tf.data.Dataset) -> tf.data.Dataset:
    """Adds what each position predicts, where neighbours are predicted."""
    if self.shift is None:
      return batches
    add = functools.partial(add_shifted_labels, is_reversed=self.shift == "rtl")
    add = tf.autograph.experimental.do_not_convert(add)
    return batches.map(add).prefetch(2)


def add_shifted_labels(
  features: dynamic_masking.Features, is_reversed: bool = False
) -> dynamic_masking.Features:
  """Returns a batch with what each of its positions predicts.

  Args:
    features: `input_ids` and `input_mask`, int32 [B, F]; `cls_positions`, int32
      [B, K], if rows hold several instances, as BertModel takes them; and
      others.
    is_reversed: whether pieces are predicted from right to left.

  Returns:
    The features with `masked_lm_positions` and `masked_lm_ids`, int32 [B, F -
    1], and `masked_lm_weights`, float32 [B, F - 1], all 0 where there is no
    next piece in the instance. The names are those that the head's loss takes.
  """
  ids, is_real = features["input_ids"], features["input_mask"] > 0
  # Neighbours in a row: those at 0 and 1, at 1 and 2, and so on.
  are_both = is_real[:, :-1] & is_real[:, 1:]
  places = tf.range(tf.shape(ids)[1] - 1)
  if "cls_positions" in features:
    later_starts = features["cls_positions"][:, None, 1:]  # 0 for none.
    begins = tf.equal(later_starts, 1 + places[:, None])  # [B, F - 1, K - 1]
    are_both &= ~tf.reduce_any(begins, axis=-1)
  positions, labels = places, ids[:, 1:]
  if is_reversed:
    positions, labels = places + 1, ids[:, :-1]
  return {
    **features,
    "masked_lm_positions": tf.where(are_both, positions, 0),
    "masked_lm_ids": tf.where(are_both, labels, 0),
    "masked_lm_weights": tf.cast(are_both, tf.float32),
  }
