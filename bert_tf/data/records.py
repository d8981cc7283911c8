"""Encodes `tf.train.Example` records, and writes or reuses TFRecord files."""

import contextlib
import dataclasses
import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline
from bert_tf.files import atomic, json_files, paths, shard_files


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


def write_or_reuse(
  path: str,
  settings: Mapping[str, Any],
  write_all: Callable[[RecordWriter], int | None],
) -> input_pipeline.RecordFiles:
  """Writes a TFRecord file unless it already exists with the same settings.

  The settings are JSON values of everything that the records depend on.
  `write_all` writes the records and returns how many examples were truncated,
  or None if it does not count them.
  """
  key = json.loads(json.dumps(settings))
  note = settings_file(path)
  saved = shard_files.read_settings(note) if paths.exists(path) else {}
  if saved.get("settings") == key:
    with contextlib.suppress(ValueError):  # A damaged file is written again.
      files = input_pipeline.open_records(path)
      if files.num_records == saved.get("num_records"):
        logging.info("Reusing %s, made from these examples and settings.", path)
        num_cut = saved.get("num_cut")
        return dataclasses.replace(files, num_cut=num_cut, is_reused=True)
  # An interrupted write must not leave old settings beside new records.
  paths.remove(note)
  with open_writer([path]) as writer:
    num_cut = write_all(writer)
  files = input_pipeline.RecordFiles((path,), writer.num_written, num_cut)
  content = {"settings": key, "num_records": files.num_records}
  json_files.write(note, {**content, "num_cut": num_cut})
  return files


def tokenizer_settings(tokenizer: tokenization.FullTokenizer) -> dict[str, Any]:
  """Returns what the word pieces of a tokenizer depend on."""
  return {
    "vocab": hash_json(list(tokenizer.vocab)),
    "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
    "strip_accents": tokenizer.basic_tokenizer.strip_accents,
    "unicode": unicodedata.unidata_version,
  }


def hash_json(value: Any) -> str:
  """Returns the SHA-256 of a JSON value in hexadecimal."""
  return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def settings_file(path: str) -> str:
  """Returns the hidden file that holds the settings of a TFRecord file."""
  return atomic.hidden(path, "settings.json")
