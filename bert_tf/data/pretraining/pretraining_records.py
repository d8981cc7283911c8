"""Pre-training records: their format, checks and dynamic masking."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_tf.data import input_pipeline
from bert_tf.data.pretraining.dynamic_masking import Features


@dataclasses.dataclass(frozen=True)
class RecordFormat:
  """The sizes of records, which show whether they are masked or packed."""

  max_seq_length: int  # F.
  max_predictions_per_seq: int  # P; 0 for unmasked records.
  max_instances: int = 0  # K; 0 for records that are not packed.

  @classmethod
  def read(cls, path: str) -> "RecordFormat":
    """Reads the format from a file's first record."""
    features = input_pipeline.read_first_features(path)
    names = "input_ids", "masked_lm_positions", "cls_positions"
    sizes = [
      len(features[name].int64_list.value) if name in features else 0
      for name in names
    ]
    if not sizes[0]:
      raise ValueError(f"{path} does not hold pre-training records.")
    return cls(*sizes)

  @property
  def is_masked(self) -> bool:
    """Whether the records were masked when they were created."""
    return self.max_predictions_per_seq > 0

  def spec(self) -> input_pipeline.Spec:
    """Returns the spec of a record.

    Unmasked records have no masked_lm features, and unpacked ones no
    cls_positions.
    """
    inputs = ("input_ids", "input_mask", "segment_ids")
    sizes = dict.fromkeys(inputs, self.max_seq_length)
    sizes["next_sentence_labels"] = max(1, self.max_instances)
    if self.max_instances:
      sizes["cls_positions"] = self.max_instances
    if self.is_masked:
      for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
        sizes[name] = self.max_predictions_per_seq
    return {
      name: tf.io.FixedLenFeature(
        [size], tf.float32 if name == "masked_lm_weights" else tf.int64
      )
      for name, size in sizes.items()
    }

  def __str__(self) -> str:
    name = "masked" if self.is_masked else "unmasked"
    return f"packed {name}" if self.max_instances else name


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
  """Files of one format, and what labels their batches."""

  files: input_pipeline.RecordFiles
  record_format: RecordFormat
  # Labels batches of unmasked records, as DynamicMasker.mask does; None to
  # leave them as they are.
  mask: Callable[[Features, tf.Tensor, tf.Tensor], Features] | None = None

  def check(self, vocab_size: int) -> None:
    """Raises ValueError if a file's first record does not fit."""
    first, expected = self.files.paths[0], self.record_format
    for path in self.files.paths:
      stored = RecordFormat.read(path)
      if str(stored) != str(expected):
        raise ValueError(
          f"{path} holds {stored} records, but {first} holds {expected} ones."
        )
      # The first size that differs.
      for name, size in sorted(vars(stored).items() - vars(expected).items()):
        raise ValueError(
          f"{path} has records of {name} {size}, not "
          f"{getattr(expected, name)}; set `{name}={size}`."
        )
      ids = self._read_first_ids(path)
      if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise ValueError(
          f"{path}: its first record has input_ids {min(ids)} to {max(ids)}, "
          f"but the model has 0 to {vocab_size - 1}."
        )

  def check_begins(self, cls_id: int, vocab_file: str) -> None:
    """Raises ValueError if a file's first record does not begin with [CLS]."""
    for path in self.files.paths:
      first = self._read_first_ids(path)[0]
      if first != cls_id:
        raise ValueError(
          f"{path} begins with the id {first}, but [CLS] has the id {cls_id} "
          f"in {vocab_file}: its records have another vocabulary."
        )

  def _read_first_ids(self, path: str) -> list[int]:
    features = input_pipeline.read_first_features(path)
    return list(features["input_ids"].int64_list.value)

  def label(
    self, batches: tf.data.Dataset, batch_size: int, steps_done: int = 0
  ) -> tf.data.Dataset:
    """Returns batches of these records with labels.

    Each epoch has masks of its own, and evaluation those of epoch 0.

    Args:
      batches: the parsed records. Only the last batch may be short.
      batch_size: B.
      steps_done: the number of batches that were left out before the first.
    """
    mask, num_records = self.mask, self.files.num_records
    if mask is None:
      return batches

    @tf.autograph.experimental.do_not_convert
    def label(step: tf.Tensor, features: Features) -> Features:
      size = tf.shape(features["input_ids"], tf.int64)[0]
      numbers = step * batch_size + tf.range(size)
      return mask(features, numbers // num_records, numbers % num_records)

    return batches.enumerate(steps_done).map(label).prefetch(2)
