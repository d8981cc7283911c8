"""Reads TFRecord files as batches.

The order of training records depends on the seed and the epoch only, and
reading can start at any step, so a resumed run gets the batches that the
uninterrupted run would have got.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from concurrent import futures

import tensorflow as tf

# Records that are shuffled together: a whole small data set, and about 50 MB
# of a large one at a length of 128.
_SHUFFLE_BLOCK = 1 << 16

# Batches whose records are sorted by length together: enough for records of
# like length in a batch, few enough for batches of all lengths to alternate.
_GROUPED_BATCHES = 8

# The widths of dynamic padding in eighths of max_seq_length. XLA compiles a
# program for each, so there are few; each is at most 3/2 of the one before.
_WIDTHS_IN_EIGHTHS = (2, 3, 4, 5, 6, 8)
_WIDTH_MULTIPLE = 8

Spec = Mapping[str, tf.io.FixedLenFeature]


@dataclasses.dataclass(frozen=True)
class RecordFiles:
  """TFRecord files whose records have been counted.

  Attributes:
    paths: in the order given.
    num_records: records of all files.
    counts: records of each file; () if not known.
  """

  paths: tuple[str, ...]
  num_records: int
  counts: tuple[int, ...] = ()

  def only(self, paths: Sequence[str]) -> "RecordFiles":
    """Returns some of these files, whose counts must be known."""
    counts = dict(zip(self.paths, self.counts))
    kept = tuple(counts[path] for path in paths)
    return RecordFiles(tuple(paths), sum(kept), kept)


def open_records(patterns: str) -> RecordFiles:
  """Finds files and counts their records, which checks that they are whole.

  Args:
    patterns: files and globs, separated by commas; a name that ends in .gz is
      read as GZIP.

  Raises:
    ValueError: naming the pattern that matches nothing, or the file that has
      no records, is damaged (and at which record) or is GZIP but not .gz.
  """
  paths = []
  for pattern in patterns.split(","):
    # A star does not match hidden files, such as a data set's settings.
    matches = [
      path
      for path in sorted(tf.io.gfile.glob(pattern))
      if path == pattern or not os.path.basename(path).startswith(".")
    ]
    if not matches:
      raise ValueError(f"no TFRecord file matches {pattern!r}.")
    paths.extend(matches)
  with futures.ThreadPoolExecutor(max_workers=4) as pool:
    counts = list(pool.map(_count, paths))
  return RecordFiles(tuple(paths), sum(counts), tuple(counts))


def _count(path: str) -> int:
  """Returns the number of records of a file, checking their checksums."""
  records = _records(path)
  one_more = lambda count, _: count + 1  # noqa: E731
  zero = tf.constant(0, tf.int64)
  try:
    count = int(records.reduce(zero, one_more))
  except tf.errors.DataLossError as error:
    _check_name_of_gzip(path)
    whole = int(records.ignore_errors().reduce(zero, one_more))
    raise ValueError(
      f"{path} is not a whole TFRecord file: record {whole} (the first is 0) "
      "is cut short or damaged; make the file again."
    ) from error
  if not count:
    raise ValueError(f"{path} holds no records; make the file again.")
  return count


def _check_name_of_gzip(path: str) -> None:
  """Raises ValueError for GZIP not named .gz, and the other way round."""
  with tf.io.gfile.GFile(path, "rb") as reader:
    is_gzip = reader.read(2) == b"\x1f\x8b"  # RFC 1952, section 2.3.1.
  if is_gzip and not path.endswith(".gz"):
    raise ValueError(f"{path} is GZIP; rename it to {path}.gz to have it read.")
  if path.endswith(".gz") and not is_gzip:
    raise ValueError(
      f"{path} is not GZIP, which its name says it is; rename it to "
      f"{path.removesuffix('.gz')}, or make the file again."
    )


def _records(path: str | tf.Tensor) -> tf.data.Dataset:
  """Returns the serialized records of one file."""
  is_gzip = tf.strings.regex_full_match(path, r".*\.gz")
  return tf.data.TFRecordDataset(path, tf.where(is_gzip, "GZIP", ""))


def _first_features(path: str) -> Mapping[str, tf.train.Feature]:
  """Returns the features of a file's first record."""
  record = next(iter(_records(path).take(1))).numpy()
  return tf.train.Example.FromString(record).features.feature


def sizes_of_first(path: str) -> tuple[int, int]:
  """Returns max_seq_length and max_predictions_per_seq of the first record.

  Raises:
    ValueError: if it is not a pre-training record.
  """
  features = _first_features(path)
  max_seq_length = len(features["input_ids"].int64_list.value)
  num_masked = len(features["masked_lm_positions"].int64_list.value)
  if not max_seq_length or not num_masked:
    raise ValueError(f"{path} has no records of pre-training.")
  return max_seq_length, num_masked


def pretraining_spec(
  max_seq_length: int, max_predictions_per_seq: int
) -> dict[str, tf.io.FixedLenFeature]:
  """Returns the features of a pre-training record: names, shapes, dtypes."""
  ids = tf.io.FixedLenFeature([max_seq_length], tf.int64)
  predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
  weights = tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32)
  return {
    "input_ids": ids,
    "input_mask": ids,
    "segment_ids": ids,
    "masked_lm_positions": predictions,
    "masked_lm_ids": predictions,
    "masked_lm_weights": weights,
    "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
  }


def classifier_spec(
  max_seq_length: int, num_labels: int, problem_type: str
) -> dict[str, tf.io.FixedLenFeature]:
  """Returns the features of a classifier record: names, shapes, dtypes.

  Args:
    max_seq_length: word pieces a record.
    num_labels: C.
    problem_type: one of losses.PROBLEM_TYPES; it decides the label_ids' type.
  """
  ids = tf.io.FixedLenFeature([max_seq_length], tf.int64)
  label_ids = {
    "classification": tf.io.FixedLenFeature([1], tf.int64),
    "regression": tf.io.FixedLenFeature([1], tf.float32),
    "multilabel": tf.io.FixedLenFeature([num_labels], tf.int64),
  }
  return {
    "input_ids": ids,
    "input_mask": ids,
    "segment_ids": ids,
    "label_ids": label_ids[problem_type],
    "is_real_example": tf.io.FixedLenFeature([1], tf.int64),
  }


def check_first_records(
  files: RecordFiles, spec: Spec, flags: Mapping[str, str], vocab_size: int
) -> None:
  """Checks the first record of every file against the expected features.

  Args:
    files: to check.
    spec: the expected features.
    flags: feature to the flag that sets its length.
    vocab_size: upper bound of word-piece ids, exclusive.

  Raises:
    ValueError: naming the file and the difference.
  """
  for path in files.paths:
    features = _first_features(path)
    for name, feature in spec.items():
      if name not in features:
        raise ValueError(
          f"{path}: its records have no {name}, but "
          f"{', '.join(sorted(features))}; they were made for another task."
        )
      values = features[name]
      found = len(values.int64_list.value) or len(values.float_list.value)
      expected = feature.shape[0] if feature.shape else 1
      if found != expected:
        flag = flags.get(name, name)
        raise ValueError(
          f"{path} was made with {flag} {found}, this run has {expected}; "
          f"set --{flag}={found} or make the file again."
        )
    largest = max(features["input_ids"].int64_list.value)
    if largest >= vocab_size:
      raise ValueError(
        f"{path} has the word-piece id {largest}, but vocab_size of the "
        f"config is {vocab_size}; the records were made with another "
        "vocabulary."
      )


def training_dataset(
  files: RecordFiles,
  spec: Spec,
  batch_size: int,
  seed: int,
  steps_done: int,
  vocab_size: int,
  group_by_length: bool = False,
) -> tf.data.Dataset:
  """Returns endless shuffled full batches, after the first `steps_done`.

  Every epoch shuffles the files, four of which are read in turn, and the
  records in blocks of 65,536. A batch may span epochs.

  Args:
    files: to read.
    spec: features to parse.
    batch_size: records a step.
    seed: of the order.
    steps_done: batches to skip.
    vocab_size: upper bound of word-piece ids, exclusive.
    group_by_length: whether 8 batches at a time are sorted by length, shuffled.
  """
  window = _GROUPED_BATCHES if group_by_length else 1
  first_window, steps_in_window = divmod(steps_done, window)
  first_epoch, position = divmod(
    first_window * window * batch_size, files.num_records
  )

  def epoch_records(epoch: tf.Tensor) -> tf.data.Dataset:
    start = tf.where(epoch == first_epoch, tf.cast(position, tf.int64), 0)
    return _epoch(files.paths, seed, epoch, start)

  epochs = tf.data.Dataset.counter(start=first_epoch)
  batches = epochs.flat_map(epoch_records).batch(
    window * batch_size, drop_remainder=True
  )
  if group_by_length:
    mask = {"input_mask": spec["input_mask"]}
    batches = _grouped(batches, mask, seed, first_window).skip(steps_in_window)
  return _parsed(batches, spec, vocab_size)


def _grouped(
  windows: tf.data.Dataset, mask: Spec, seed: int, first_window: int
) -> tf.data.Dataset:
  """Divides windows of 8 batches of records into batches of like length.

  The length of a record with several choices is that of its longest.
  """

  def group(window: tf.Tensor, serialized: tf.Tensor) -> tf.Tensor:
    masks = tf.io.parse_example(serialized, dict(mask))["input_mask"]
    lengths = tf.reduce_sum(masks, axis=-1)  # [B] or [B, C]
    lengths = tf.reduce_max(lengths, axis=range(1, lengths.shape.rank))
    order = tf.argsort(lengths, stable=True)
    batches = tf.reshape(tf.gather(serialized, order), [_GROUPED_BATCHES, -1])
    # Negative, unlike the seeds of epochs and blocks.
    return tf.random.experimental.stateless_shuffle(
      batches, [seed, -1 - window]
    )

  return windows.enumerate(first_window).map(group).unbatch()


def _epoch(
  paths: Sequence[str], seed: int, epoch: tf.Tensor, start: tf.Tensor
) -> tf.data.Dataset:
  """Returns the shuffled records of one epoch, the first `start` skipped."""
  order = tf.random.experimental.stateless_shuffle(
    tf.constant(paths), seed=[seed, epoch]
  )
  records = tf.data.Dataset.from_tensor_slices(order).interleave(
    _records,
    cycle_length=min(4, len(paths)),
    num_parallel_calls=min(4, len(paths)),
    deterministic=True,
  )
  first_block = start // _SHUFFLE_BLOCK

  def shuffled(block: tf.Tensor, block_records: tf.Tensor) -> tf.Tensor:
    # Unique for each block; no epoch has 2**31 blocks.
    block_seed = [seed, epoch * (1 << 32) + block + 1]
    return tf.random.experimental.stateless_shuffle(block_records, block_seed)

  return (
    records.skip(first_block * _SHUFFLE_BLOCK)
    .batch(_SHUFFLE_BLOCK)
    .enumerate(first_block)
    .map(shuffled)
    .prefetch(1)
    .unbatch()
    .skip(start % _SHUFFLE_BLOCK)
  )


def evaluation_dataset(
  files: RecordFiles, spec: Spec, batch_size: int, vocab_size: int
) -> tf.data.Dataset:
  """Returns endless full batches in the order of the files, repeated."""
  records = tf.data.Dataset.from_tensor_slices(list(files.paths))
  records = records.flat_map(_records).repeat()
  batches = records.batch(batch_size, drop_remainder=True)
  return _parsed(batches, spec, vocab_size)


def finite_dataset(
  files: RecordFiles, spec: Spec, batch_size: int, vocab_size: int
) -> tf.data.Dataset:
  """Returns every record once, in order; the last batch may be short."""
  records = tf.data.Dataset.from_tensor_slices(list(files.paths))
  batches = records.flat_map(_records).batch(batch_size)
  return _parsed(batches, spec, vocab_size)


def _parsed(
  batches: tf.data.Dataset, spec: Spec, vocab_size: int
) -> tf.data.Dataset:
  """Parses batches, checks their ids and casts int64 to int32."""

  def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    features = tf.io.parse_example(serialized, dict(spec))
    for name in ("input_ids", "masked_lm_ids"):
      if name in features:
        # A gather under XLA would silently take another row.
        tf.debugging.assert_less(
          features[name],
          tf.cast(vocab_size, tf.int64),
          f"{name} of a record holds an id that is not below vocab_size "
          f"{vocab_size}: the records were made with another vocabulary",
        )
    return {
      name: tf.cast(t, tf.int32) if t.dtype == tf.int64 else t
      for name, t in features.items()
    }

  options = tf.data.Options()
  # Nothing is tuned, and the end of a run would wait for the tuning thread.
  options.autotune.enabled = False
  return batches.map(parse).prefetch(2).with_options(options)


def widths(max_seq_length: int) -> tuple[int, ...]:
  """Returns the widths of dynamic padding, ascending.

  They are at most 5 multiples of 8 and max_seq_length: 32, 48, 64, 80, 96 and
  128 for 128.
  """
  parts = (eighths * max_seq_length / 8 for eighths in _WIDTHS_IN_EIGHTHS)
  rounded = (math.ceil(p / _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE for p in parts)
  return tuple(sorted({min(width, max_seq_length) for width in rounded}))


def cut_padding(
  batches: tf.data.Dataset, max_seq_length: int, more: Sequence[str] = ()
) -> tf.data.Dataset:
  """Cuts every batch to the least of `widths` that holds its longest example.

  Only padding is cut, so the model's outputs at the real positions are the
  same up to rounding.

  Args:
    batches: with `input_ids`, `input_mask` and `segment_ids`, int [B, F] or
      [B, C, F], F being max_seq_length.
    max_seq_length: F.
    more: other features of [B, F] to cut.
  """
  steps = tf.constant(widths(max_seq_length))

  def cut(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    mask = tf.reshape(features["input_mask"], [-1, max_seq_length])
    is_used = tf.reduce_any(mask > 0, axis=0)  # [F]
    positions = tf.range(1, max_seq_length + 1)
    length = tf.reduce_max(tf.where(is_used, positions, 0))
    width = steps[tf.searchsorted(steps, [length])[0]]
    cut_features = {
      name: features[name][..., :width]
      for name in ("input_ids", "input_mask", "segment_ids", *more)
    }
    return {**features, **cut_features}

  return batches.map(cut)
