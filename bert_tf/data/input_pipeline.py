"""Reads TFRecord files as batches, and cuts their padding.

The order of training records depends only on the seed and the epoch, and
reading can start at any step, so a resumed run gets the same batches.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import cast

import numpy as np
import tensorflow as tf
from google.protobuf import message

from bert_tf.files import errors, shard_files

# Names, shapes and dtypes of the features of a record.
Spec = Mapping[str, tf.io.FixedLenFeature]

# Records are shuffled in blocks of this many: a whole small data set, or about
# 50 MB of a large one at a length of 128.
_SHUFFLE_BLOCK = 1 << 16

# These functions have no Python `if` or `for` over tensors, and AutoGraph would
# add seconds to the start of a run.
_as_written = tf.autograph.experimental.do_not_convert


@dataclasses.dataclass(frozen=True)
class RecordFiles:
  """TFRecord files whose records have been counted."""

  paths: tuple[str, ...]
  num_records: int  # Records of all files.


def open_records(patterns: str) -> RecordFiles:
  """Finds files and counts their records, which also checks their integrity.

  The patterns are files and globs, separated by commas; see
  `shard_files.expand`. Files whose names end in .gz are read as GZIP.
  """
  names = map(str.strip, patterns.split(","))
  files = [path for name in names for path in shard_files.expand(name)]
  with futures.ThreadPoolExecutor(max_workers=4) as pool:
    return RecordFiles(tuple(files), sum(pool.map(_count_records, files)))


def _count_records(path: str) -> int:
  records = _read_records(path)
  one_more = _as_written(lambda count, _: count + 1)
  zero = tf.constant(0, tf.int64)
  try:
    count = int(records.reduce(zero, one_more))
  except tf.errors.DataLossError as error:
    raise ValueError(
      f"{path} is not a whole TFRecord file ({errors.reason(error)}). The "
      "names of GZIP files must end in .gz."
    ) from error
  if not count:
    raise ValueError(f"{path} holds no records.")
  return count


@_as_written
def _read_records(path: str | tf.Tensor) -> tf.data.Dataset:
  is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
  return tf.data.TFRecordDataset(path, tf.where(is_gzip, "GZIP", ""))


def read_first_features(path: str) -> Mapping[str, tf.train.Feature]:
  """Returns the features of a file's first record."""
  record = next(iter(_read_records(path).take(1))).numpy()
  try:
    features = tf.train.Example.FromString(record).features.feature
  except message.DecodeError:
    raise ValueError(
      f"{path}: its first record is not a tf.train.Example."
    ) from None
  return cast(Mapping[str, tf.train.Feature], features)


def training_dataset(
  files: RecordFiles,
  spec: Spec,
  batch_size: int,
  seed: int,
  steps_done: int,
  vocab_size: int,
  group_by_length: bool = False,
  type_vocab_size: int = 2,
) -> tf.data.Dataset:
  """Returns endless shuffled full batches, without the first `steps_done`.

  Every epoch shuffles the files and the records. A batch may span epochs.
  With `group_by_length`, the records of 50 batches at a time are sorted by
  length, and these batches are shuffled. They need little padding, but their
  labels are no longer a random sample.
  """
  # If the batches of a window were few and the length of a text told its label,
  # a batch would hold a single label.
  window_size = 50 if group_by_length else 1
  first_window, steps_in_window = divmod(steps_done, window_size)
  first_epoch, position = divmod(
    first_window * window_size * batch_size, files.num_records
  )

  @_as_written
  def epoch_records(epoch: tf.Tensor) -> tf.data.Dataset:
    start = tf.where(epoch == first_epoch, tf.cast(position, tf.int64), 0)
    first_block = start // _SHUFFLE_BLOCK

    @_as_written
    def shuffled(block: tf.Tensor, block_records: tf.Tensor) -> tf.Tensor:
      # Unique for each block; no epoch has 2**31 blocks.
      block_seed = [seed, epoch * (1 << 32) + block + 1]
      return tf.random.experimental.stateless_shuffle(block_records, block_seed)

    order = tf.random.experimental.stateless_shuffle(
      tf.constant(files.paths), seed=[seed, epoch]
    )
    records = tf.data.Dataset.from_tensor_slices(order).interleave(
      _read_records,
      cycle_length=min(4, len(files.paths)),
      num_parallel_calls=min(4, len(files.paths)),
      deterministic=True,
    )
    return (
      records.skip(first_block * _SHUFFLE_BLOCK)
      .batch(_SHUFFLE_BLOCK)
      .enumerate(first_block)
      .map(shuffled)
      .prefetch(1)
      .unbatch()
      .skip(start % _SHUFFLE_BLOCK)
    )

  epochs = tf.data.Dataset.counter(start=first_epoch)
  batches = epochs.flat_map(epoch_records).batch(
    window_size * batch_size, drop_remainder=True
  )
  if group_by_length:

    @_as_written
    def group(window: tf.Tensor, serialized: tf.Tensor) -> tf.Tensor:
      mask = {"input_mask": spec["input_mask"]}
      masks = tf.io.parse_example(serialized, mask)["input_mask"]
      lengths = tf.reduce_sum(masks, axis=-1)  # [B] or [B, C]
      lengths = tf.reduce_max(lengths, axis=range(1, lengths.shape.rank))
      order = tf.argsort(lengths, stable=True)
      grouped = tf.reshape(tf.gather(serialized, order), [window_size, -1])
      # Negative, so that it differs from the seeds of epochs and blocks.
      return tf.random.experimental.stateless_shuffle(
        grouped, [seed, -1 - window]
      )

    batches = batches.enumerate(first_window).map(group).unbatch()
    batches = batches.skip(steps_in_window)
  return _parse(batches, spec, vocab_size, type_vocab_size)


def finite_dataset(
  files: RecordFiles,
  spec: Spec,
  batch_size: int,
  vocab_size: int,
  type_vocab_size: int = 2,
) -> tf.data.Dataset:
  """Returns batches of all records, in order, once; the last may be short."""
  names = tf.data.Dataset.from_tensor_slices(list(files.paths))
  batches = names.flat_map(_read_records).batch(batch_size)
  return _parse(batches, spec, vocab_size, type_vocab_size)


def _parse(
  batches: tf.data.Dataset,
  spec: Spec,
  vocab_size: int,
  type_vocab_size: int,
) -> tf.data.Dataset:
  length = spec["input_ids"].shape[-1] if "input_ids" in spec else 0
  limits = {
    "input_ids": vocab_size - 1,
    "input_mask": 1,
    "segment_ids": type_vocab_size - 1,
    "masked_lm_positions": length - 1,
    "masked_lm_ids": vocab_size - 1,
    "next_sentence_labels": 1,
    "cls_positions": length - 1,
  }
  # Other features are lists of any length, which the caller checks.
  fixed = tf.io.FixedLenFeature
  highest = {n: h for n, h in limits.items() if isinstance(spec.get(n), fixed)}

  @_as_written
  def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    features = tf.io.parse_example(serialized, dict(spec))
    _assert_in_range(features, highest)
    return {
      name: tf.cast(t, tf.int32) if t.dtype == tf.int64 else t
      for name, t in features.items()
    }

  options = tf.data.Options()
  # Autotuning has nothing to tune here, and would delay the run's end.
  options.autotune.enabled = False
  return batches.map(parse).prefetch(2).with_options(options)


def _assert_in_range(
  features: Mapping[str, tf.Tensor], highest: Mapping[str, int]
) -> None:
  """Fails in the graph if a value, int64, is out of range.

  Without this check, a gather under XLA would silently read another row.
  """
  if not highest:
    return
  # Few operations, since each costs as much as comparing its values. As an
  # unsigned integer, a negative value exceeds all limits.
  values = tf.concat([features[name] for name in highest], -1)
  sizes = [features[name].shape[-1] for name in highest]
  limits = np.repeat(np.array([*highest.values()], np.uint64), sizes)
  is_outside = tf.reduce_any(tf.bitcast(values, tf.uint64) > limits)
  ranges = ", ".join(f"{name} 0 to {high}" for name, high in highest.items())
  # A branch that formats the value would double the cost.
  tf.raw_ops.Assert(
    condition=tf.logical_not(is_outside),
    data=[f"a value in a record is out of range; allowed are {ranges}"],
  )


def list_widths(max_seq_length: int) -> tuple[int, ...]:
  """Returns the widths for XLA: 32, 48, 64, 80, 96 and 128 for 128."""
  # They are few, since XLA compiles each, and each is at most 3/2 of the one
  # before, which bounds the padding.
  eighths = (math.ceil(n * max_seq_length / 64) for n in (2, 3, 4, 5, 6, 8))
  return tuple(sorted({min(8 * each, max_seq_length) for each in eighths}))


def cut_padding(
  batches: tf.data.Dataset,
  max_seq_length: int,
  more: Sequence[str] = (),
  has_few_widths: bool = False,
) -> tf.data.Dataset:
  """Cuts every batch to the length of its longest example.

  Args:
    batches: features `input_ids`, `input_mask` and `segment_ids`, int [B, F]
      or [B, C, F].
    max_seq_length: F.
    more: names of further features of shape [B, F, ...] to cut.
    has_few_widths: whether to round the length up to one of `list_widths`.
  """
  all_widths = range(1, max_seq_length + 1)
  allowed = tf.constant(
    list_widths(max_seq_length) if has_few_widths else all_widths
  )

  @_as_written
  def cut(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    mask = tf.reshape(features["input_mask"], [-1, max_seq_length])
    is_used = tf.reduce_any(mask > 0, axis=0)  # [F]
    positions = tf.range(1, max_seq_length + 1)
    length = tf.reduce_max(tf.where(is_used, positions, 0))
    width = allowed[tf.searchsorted(allowed, [length])[0]]
    cut_features = {
      name: features[name][..., :width]
      for name in ("input_ids", "input_mask", "segment_ids")
    }
    cut_features |= {name: features[name][:, :width] for name in more}
    return {**features, **cut_features}

  return batches.map(cut)
