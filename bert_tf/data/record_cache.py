"""Reuses TFRecord files while their settings, in a hidden file, are equal."""

import dataclasses
import hashlib
import json
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from bert_tf import tokenization
from bert_tf.data import input_pipeline, records
from bert_tf.files import atomic, json_files, paths


def write(
  path: str,
  settings: Mapping[str, Any],
  write_all: Callable[[records.RecordWriter], int | None],
) -> input_pipeline.RecordFiles:
  """Writes a TFRecord file unless it already exists with the same settings.

  The settings are JSON values of everything that the records depend on.
  `write_all` writes the records and returns how many examples were truncated,
  or None if it does not count them.
  """
  key = json.loads(json.dumps(settings))
  existing = _find_reusable(path, key)
  if existing:
    logging.info("Reusing %s, made from these examples and settings.", path)
    return existing
  note = settings_file(path)
  # An interrupted write must not leave old settings beside new records.
  paths.remove(note)
  with records.open_records([path]) as writer:
    num_cut = write_all(writer)
  files = input_pipeline.RecordFiles((path,), writer.num_written, num_cut)
  content = {"settings": key, "num_records": files.num_records}
  content |= {"num_cut": num_cut}
  atomic.write_lines(note, [json.dumps(content, indent=2)])
  return files


def tokenizer_settings(tokenizer: tokenization.FullTokenizer) -> dict[str, Any]:
  """What the word pieces of a tokenizer depend on."""
  return {
    "vocab": content_hash(list(tokenizer.vocab)),
    "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
    "strip_accents": tokenizer.basic_tokenizer.strip_accents,
    "unicode": unicodedata.unidata_version,
  }


def content_hash(value: Any) -> str:
  """The SHA-256 of a JSON value in hexadecimal."""
  return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def settings_file(path: str) -> str:
  """The hidden file that holds the settings of a TFRecord file."""
  return atomic.hidden(path, "settings.json")


def _find_reusable(
  path: str, settings: Mapping[str, Any]
) -> input_pipeline.RecordFiles | None:
  note = settings_file(path)
  if not (paths.exists(note) and paths.exists(path)):
    return None
  try:
    content = json_files.read_object(note)
    if content.get("settings") != settings:
      return None
    existing = input_pipeline.open_records(path)
  except ValueError as error:
    logging.warning("%s The file is written again.", error)
    return None
  if existing.num_records != content.get("num_records"):
    return None
  return dataclasses.replace(
    existing, num_cut=content.get("num_cut"), is_reused=True
  )
