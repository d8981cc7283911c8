"""From TFRecord files to batches.

The order of training records is a function of the seed and the epoch, and any
position in it can be reached without going through the steps before it, so a
resumed run sees what the uninterrupted one would have seen.
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

# Batches whose records are grouped by length together: enough that those of a
# batch are alike, few enough that a batch still is a draw from all lengths.
_GROUPED_BATCHES = 8

# The widths that batches are cut to, as eighths of the full one. XLA compiles
# a program for each, so there are few; each is at most 3/2 of the one before.
_WIDTHS_IN_EIGHTHS = (2, 3, 4, 5, 6, 8)
_WIDTH_MULTIPLE = 8

Spec = Mapping[str, tf.io.FixedLenFeature]


@dataclasses.dataclass(frozen=True)
class RecordFiles:
  """TFRecord files that were read to their end once.

  Attributes:
    paths: in the order given.
    num_records: in all files together.
    counts: of each file, where they are known.
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
  """Finds and counts records, and so checks that every file is whole.

  Args:
    patterns: files and globs, separated by commas; a name that ends in .gz is
      read as GZIP.

  Raises:
    ValueError: naming the pattern that matches nothing, the file without
      records, the file that is damaged and the record where it is, or the one
      that is GZIP against its name.
  """
  paths = []
  for pattern in patterns.split(","):
    # A star does not stand for what is hidden, such as a data set's settings.
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
  """Returns the number of records of a file, read with their checksums."""
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
  """Refuses a file whose name and content differ in whether it is GZIP."""
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
  """Returns the word pieces and the masked words of a file's first record.

  Raises:
    ValueError: if it is no record of pre-training.
  """
  features = _first_features(path)
  sizes = tuple(
    len(features[name].int64_list.value)
    for name in ("input_ids", "masked_lm_positions")
  )
  if 0 in sizes:
    raise ValueError(f"{path} has no records of pre-training.")
  return sizes


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
    problem_type: one of losses.PROBLEM_TYPES; it decides what label_ids are.
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
  """Compares the first record of every file with what will be parsed.

  Args:
    files: to look at.
    spec: the features that are expected.
    flags: the name of the flag that sets the length of a feature.
    vocab_size: what every word-piece id must be below.

  Raises:
    ValueError: naming the file and what differs.
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
  """Returns endless full batches in a shuffled order, from a step on.

  Every epoch has its own order: of the files, four of which are read in turn,
  and of the records in blocks of 65,536. A batch may span two epochs.

  Args:
    files: what to read.
    spec: features to parse.
    batch_size: records a step.
    seed: of the order.
    steps_done: steps whose batches are left out.
    vocab_size: what every word-piece id must be below.
    group_by_length: whether records of like length share a batch: those of
      every 8 batches are sorted by their length, and the 8 batches that this
      makes come in a shuffled order.

  Raises:
    ValueError: if there are fewer records than one batch holds.
  """
  if files.num_records < batch_size:
    raise ValueError(
      f"{files.num_records} records are fewer than one batch of "
      f"{batch_size}; lower --train_batch_size or make more."
    )
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
  """Returns the batches of windows of serialized records, grouped by length.

  The length of a record with several choices is that of its longest.
  """

  def group(window: tf.Tensor, serialized: tf.Tensor) -> tf.Tensor:
    masks = tf.io.parse_example(serialized, dict(mask))["input_mask"]
    lengths = tf.reduce_sum(masks, axis=-1)  # [B] or [B, C]
    lengths = tf.reduce_max(lengths, axis=range(1, lengths.shape.rank))
    order = tf.argsort(lengths, stable=True)
    batches = tf.reshape(tf.gather(serialized, order), [_GROUPED_BATCHES, -1])
    # Below 0, where no seed of an epoch or a block is.
    return tf.random.experimental.stateless_shuffle(
      batches, [seed, -1 - window]
    )

  return windows.enumerate(first_window).map(group).unbatch()


def _epoch(
  paths: Sequence[str], seed: int, epoch: tf.Tensor, start: tf.Tensor
) -> tf.data.Dataset:
  """Returns the shuffled records of one epoch from a position on."""
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
    # Any pair will do that is not another block's; epochs beyond 2**31 blocks
    # are out of reach.
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
  """Returns parsed batches, int64 made int32, their ids checked."""

  def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    features = tf.io.parse_example(serialized, dict(spec))
    for name in ("input_ids", "masked_lm_ids"):
      if name in features:
        # A gather under XLA would take another row without a word.
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
  # There is nothing to tune, and the end of a run waits for its thread.
  options.autotune.enabled = False
  return batches.map(parse).prefetch(2).with_options(options)


def widths(max_seq_length: int) -> tuple[int, ...]:
  """Returns the widths that batches are cut to, the least first.

  They are multiples of 8, 6 at most, but for the last one: max_seq_length.
  Of 128 they are 32, 48, 64, 80, 96 and 128.
  """
  parts = (eighths * max_seq_length / 8 for eighths in _WIDTHS_IN_EIGHTHS)
  rounded = (math.ceil(p / _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE for p in parts)
  return tuple(sorted({min(width, max_seq_length) for width in rounded}))


def cut_padding(
  batches: tf.data.Dataset, max_seq_length: int, more: Sequence[str] = ()
) -> tf.data.Dataset:
  """Cuts every batch to the least width that holds its longest example.

  What is cut is padding in every example, so that the model's outputs at the
  real positions are the same, up to rounding.

  Args:
    batches: with `input_ids`, `input_mask` and `segment_ids`, int [B, F] or
      [B, C, F], F being max_seq_length.
    max_seq_length: what `widths` are of.
    more: names of other features of [B, F] that are cut with them.
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
