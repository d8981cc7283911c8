"""Encodes `tf.train.Example` records and writes TFRecord files."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf

from bert_tf.files import atomic


def encode_example(
  int_features: Mapping[str, Sequence[int]],
  float_features: Mapping[str, Sequence[float]],
) -> bytes:
  """Encodes named ints and floats as a serialized `tf.train.Example`."""
  example = tf.train.Example()
  for name, ints in int_features.items():
    example.features.feature[name].int64_list.value.extend(ints)
  for name, floats in float_features.items():
    example.features.feature[name].float_list.value.extend(floats)
  # Sorted by name, so that an example has the same bytes in every process.
  return bytes(example.SerializeToString(deterministic=True))


class RecordWriter:
  """Writes records to one or several TFRecord files in turn."""

  def __init__(self, writers: Sequence[tf.io.TFRecordWriter]) -> None:
    self._writers = writers
    self.num_written = 0

  def write(self, record: bytes) -> None:
    """Appends `record` to the next file in turn."""
    self._writers[self.num_written % len(self._writers)].write(record)
    self.num_written += 1


@contextlib.contextmanager
def open_writer(files: Sequence[str]) -> Iterator[RecordWriter]:
  """Opens TFRecord files that appear together when the body ends.

  If the body raises or is interrupted, existing files stay as they
  were; see `atomic.files`. Files ending in .gz are compressed.
  """
  with atomic.files(files) as unfinished, contextlib.ExitStack() as stack:
    writers = []
    for path in unfinished:
      compression = "GZIP" if path.endswith(".gz") else ""
      writers.append(tf.io.TFRecordWriter(path, compression))
      stack.callback(writers[-1].close)
    yield RecordWriter(writers)
