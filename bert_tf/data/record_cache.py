"""TFRecord files that are made once for the same content and settings.

A hidden note beside the file tells what it was made of.
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline, records
from bert_tf.files import atomic


def write(
  path: str,
  settings: Mapping[str, Any],
  write_all: Callable[[records.RecordWriter], None],
) -> input_pipeline.RecordFiles:
  """Writes a file of records, unless the same is there already.

  Args:
    path: TFRecord file to write; it appears when it is whole.
    settings: all that the records depend on, as JSON takes it: `content_hash`
      of what is long, and `tokenizer_settings`.
    write_all: writes the records.
  """
  settings = json.loads(json.dumps(settings))
  found = _reusable(path, settings)
  if found:
    logging.info("%s is of these examples and settings: reused.", path)
    return found
  note = _settings_file(path)
  if tf.io.gfile.exists(note):
    tf.io.gfile.remove(note)  # Before what it tells of changes.
  with records.open_records([path]) as writer:
    write_all(writer)
    settings["num_records"] = writer.num_written
  atomic.write_lines(note, [json.dumps(settings, indent=2)])
  count = writer.num_written
  return input_pipeline.RecordFiles((path,), count, (count,))


def tokenizer_settings(
  tokenizer: tokenization.FullTokenizer,
) -> dict[str, Any]:
  """Returns all that word pieces depend on but the text."""
  return {
    "vocab": content_hash(list(tokenizer.vocab)),
    "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
    "strip_accents": tokenizer.basic_tokenizer.strip_accents,
    "unicode": unicodedata.unidata_version,
  }


def content_hash(value: Any) -> str:
  """Returns the SHA-256 of a value that JSON takes, in hexadecimal."""
  return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _settings_file(path: str) -> str:
  """Where the note of a file is; hidden, so globs of data pass it by."""
  folder, name = os.path.split(path)
  return os.path.join(folder, f".{name}.settings.json")


def _reusable(
  path: str, settings: Mapping[str, Any]
) -> input_pipeline.RecordFiles | None:
  """Returns the records that are there, None if they are not of these."""
  note = _settings_file(path)
  if not (tf.io.gfile.exists(note) and tf.io.gfile.exists(path)):
    return None
  try:
    with tf.io.gfile.GFile(note) as reader:
      written = json.loads(reader.read())
    if {**settings, "num_records": written.get("num_records")} != written:
      return None
    found = input_pipeline.open_records(path)
  except ValueError as error:
    logging.warning("%s; it is made again.", error)
    return None
  return found if found.num_records == written["num_records"] else None
