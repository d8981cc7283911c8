"""Data sets of several files: the shards' names and the settings file."""

import fnmatch
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.files import atomic, compression, json_files, messages, paths

_SHARD = re.compile(r"(.*-)\d{5}-of-(\d{5})(.*)")


def shard_names(output_file: str, num_shards: int) -> list[str]:
  """Returns the paths of all shards, `name-00003-of-00064[.gz|.bz2]`.

  A single shard is `output_file`.
  """
  if num_shards == 1:
    return [output_file]
  name = compression.without_suffix(output_file)
  suffix = output_file[len(name) :]
  ends = (f"{i:05d}-of-{num_shards:05d}" for i in range(num_shards))
  return [f"{name}-{end}{suffix}" for end in ends]


def expand(pattern: str) -> list[str]:
  """Returns the file or folder of this name, else the matches of the glob.

  Raises:
    ValueError: if the glob also stands for a shard that is missing, or if it
      matches data sets of one name with different numbers of shards.
  """
  if paths.exists(pattern):
    return [pattern]
  files = paths.matches(pattern)
  first: dict[tuple[str, str], re.Match[str]] = {}
  for shard in filter(None, map(_SHARD.fullmatch, files)):
    start, count, end = shard.groups()
    other = first.setdefault((start, end), shard)
    if other[2] != count:
      raise ValueError(
        f"{other[0]} and {shard[0]} belong to different data sets. Remove the "
        "files of one of them."
      )
  for shard in first.values():
    start, count, end = shard.groups()
    whole = {f"{start}{i:05d}-of-{count}{end}" for i in range(int(count))}
    missing = sorted(fnmatch.filter(whole.difference(files), pattern))
    if missing:
      raise ValueError(
        f"{shard[0]} exists, but {missing[0]} does not. Add it; to read only "
        "some of the shards, name them one by one."
      )
  return files


def check_output(names: Iterable[str], input_files: Iterable[str]) -> None:
  """Raises ValueError if an output file is an input file or a folder."""
  texts = set(map(os.path.realpath, input_files))
  for name in names:
    if os.path.realpath(name) in texts:
      raise ValueError(f"output_file {name} is an input file; choose another.")
    if paths.is_folder(name) or name.endswith("/"):
      raise ValueError(f"output_file {name} is a folder; name a file in it.")


def write_settings(settings: dict[str, Any], note: str) -> None:
  """Writes settings to the file `note`, to be checked when a run resumes."""
  atomic.write_lines(note, [json.dumps(settings, indent=2)])


def read_settings(note: str) -> dict[str, Any]:
  """Returns the settings in the file `note`; {} if missing or damaged."""
  try:
    return json_files.read_object(note)
  except (OSError, ValueError):
    return {}


def check_same_settings(
  settings: dict[str, Any],
  note: str,
  remedy: str = "drop `resume` to build everything again",
) -> None:
  """Raises ValueError unless the file `note` has the same settings."""
  for name, values in _differences(read_settings(note), settings):
    then, now = (messages.shorten(json.dumps(value)) for value in values)
    raise ValueError(
      f"cannot resume: `{name}` is {now}, but was {then} in {note}; {remedy}."
    )


def _differences(
  before: dict[str, Any], settings: dict[str, Any]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
  for name, value in settings.items():
    then = before.get(name)
    if isinstance(value, dict):
      yield from _differences(then if isinstance(then, dict) else {}, value)
    elif then != value:
      yield name, (then, value)
