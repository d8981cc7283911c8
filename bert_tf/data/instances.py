"""Pre-training instances and their encoding as records."""

import array
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence

from bert_tf.data import packing, records


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingInstance:
  """One instance before padding, masked unless the config turns that off."""

  input_ids: Sequence[int]  # [CLS] a [SEP] b [SEP], or [CLS] a [SEP].
  num_first: int  # Number of leading ids in segment 0; the rest is segment 1.
  masked_lm_positions: Sequence[int]  # Positions to predict, ascending.
  masked_lm_ids: Sequence[int]  # The ids before masking.
  is_random_next: bool  # Whether b is random text and does not follow a.

  @property
  def num_second(self) -> int:
    """Returns the number of ids in segment 1."""
    return len(self.input_ids) - self.num_first

  def compact(self) -> "TrainingInstance":
    """Returns a copy that takes less memory, four bytes a number."""
    return dataclasses.replace(
      self,
      input_ids=array.array("i", self.input_ids),
      masked_lm_positions=array.array("i", self.masked_lm_positions),
      masked_lm_ids=array.array("i", self.masked_lm_ids),
    )


def encode_instance(
  instance: TrainingInstance, max_seq_length: int, max_predictions_per_seq: int
) -> bytes:
  """Encodes an instance as a `tf.train.Example`, padded with zeros.

  F is max_seq_length and P is max_predictions_per_seq. If P is 0, the record
  has no masked_lm features. Features:
    input_ids, input_mask, segment_ids: int64 [F].
    masked_lm_positions, masked_lm_ids: int64 [P].
    masked_lm_weights: float32 [P]. 1 for a masked position, 0 for padding.
    next_sentence_labels: int64 [1]. 1 if the second segment is random.
  """
  num_tokens = len(instance.input_ids)
  num_masked = len(instance.masked_lm_positions)
  padding = [0] * (max_seq_length - num_tokens)
  features = {"input_ids": [*instance.input_ids, *padding]}
  if max_predictions_per_seq:
    unused = [0] * (max_predictions_per_seq - num_masked)
    features["masked_lm_ids"] = [*instance.masked_lm_ids, *unused]
    features["masked_lm_positions"] = [*instance.masked_lm_positions, *unused]
  return records.encode_example(
    records.encode_features(features, {})
    + _encode_segments(num_tokens, instance.num_first, max_seq_length)
    + _encode_labels(
      num_masked, instance.is_random_next, max_predictions_per_seq
    )
  )


def encode_row(
  row: Sequence[TrainingInstance],
  max_seq_length: int,
  max_predictions_per_seq: int,
) -> bytes:
  """Encodes several instances as one packed record, padded with zeros.

  The features are those of `encode_instance`, with two differences. K is
  `packing.max_instances`; P, max_predictions_per_seq, is the limit for the
  whole row.
    next_sentence_labels: int64 [K].
    cls_positions: int64 [K]. The index at which each instance begins; 0 for
      unused entries.
  """
  max_instances = packing.max_instances(max_seq_length)
  *starts, end = [0, *itertools.accumulate(len(i.input_ids) for i in row)]
  segments = ([0] * i.num_first + [1] * i.num_second for i in row)
  labels = [int(instance.is_random_next) for instance in row]
  ints = {
    "input_ids": _pad(_concatenate(i.input_ids for i in row), max_seq_length),
    "input_mask": _pad([1] * end, max_seq_length),
    "segment_ids": _pad(_concatenate(segments), max_seq_length),
    "cls_positions": _pad(starts, max_instances),
    "next_sentence_labels": _pad(labels, max_instances),
  }
  floats = {}
  if max_predictions_per_seq:
    ids = _concatenate(instance.masked_lm_ids for instance in row)
    positions = _concatenate(
      [start + position for position in instance.masked_lm_positions]
      for start, instance in zip(starts, row)
    )
    ints["masked_lm_ids"] = _pad(ids, max_predictions_per_seq)
    ints["masked_lm_positions"] = _pad(positions, max_predictions_per_seq)
    weights = _pad([1] * len(ids), max_predictions_per_seq)
    floats["masked_lm_weights"] = weights
  return records.encode_example(records.encode_features(ints, floats))


def _concatenate(parts: Iterable[Iterable[int]]) -> list[int]:
  return list(itertools.chain.from_iterable(parts))


def _pad(values: list[int], length: int) -> list[int]:
  return values + [0] * (length - len(values))


@functools.lru_cache(maxsize=1 << 13)
def _encode_segments(num_tokens: int, num_first: int, length: int) -> bytes:
  """Encodes input_mask and segment_ids. Cached: many instances share them."""
  return records.encode_features(
    packing.mask_and_segments(num_tokens, num_first, length), {}
  )


@functools.lru_cache(maxsize=1 << 10)
def _encode_labels(num_masked: int, is_random_next: bool, length: int) -> bytes:
  """Encodes next_sentence_labels, and masked_lm_weights if length > 0."""
  weights = [1.0] * num_masked + [0.0] * (length - num_masked)
  return records.encode_features(
    {"next_sentence_labels": [int(is_random_next)]},
    {"masked_lm_weights": weights} if length else {},
  )
