"""Data sets of several files: the shards' names and the settings file."""

import fnmatch
import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf.files import json_files, messages, paths, text_lines


def shard_names(output_file: str, num_shards: int) -> list[str]:
  """Returns the paths of all shards, `name-00003-of-00064[.gz|.bz2]`.

  A single shard is `output_file`.
  """
  if num_shards == 1:
    return [output_file]
  name = text_lines.without_suffix(output_file)
  suffix = output_file[len(name) :]
  ends = (f"{i:05d}-of-{num_shards:05d}" for i in range(num_shards))
  return [f"{name}-{end}{suffix}" for end in ends]


def expand(pattern: str) -> list[str]:
  """Returns the file or folder of this name, else the matches of the glob.

  Raises:
    ValueError: if nothing matches, if the glob also stands for a shard that is
      missing, or if it matches data sets of one name with different numbers of
      shards.
  """
  if paths.exists(pattern):
    return [pattern]
  files = paths.matches(pattern)
  if not files:
    raise ValueError(f"{pattern} matches no file.")
  counts: dict[tuple[str, str], str] = {}
  name = re.compile(r"(.*-)\d{5}-of-(\d{5})(.*)")
  for shard in filter(None, map(name.fullmatch, files)):
    start, count, end = shard.groups()
    if (other := counts.setdefault((start, end), count)) != count:
      raise ValueError(
        f"{start}00000-of-{other}{end} and {start}00000-of-{count}{end} belong "
        "to different data sets. Remove the files of one of them."
      )
  for (start, end), count in counts.items():
    whole = {f"{start}{i:05d}-of-{count}{end}" for i in range(int(count))}
    missing = sorted(fnmatch.filter(whole.difference(files), pattern))
    if missing:
      raise ValueError(
        f"{missing[0]} is missing. Add it; to read only some of the shards, "
        "name them one by one."
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
  before = dict(_flatten(read_settings(note)))
  for name, now in _flatten(settings):
    if (then := before.get(name)) != now:
      is_now, was = (messages.shorten(json.dumps(x)) for x in (now, then))
      raise ValueError(
        f"cannot resume: `{name}` is {is_now}, but was {was} in {note}; "
        f"{remedy}."
      )


def _flatten(settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
  for name, value in settings.items():
    if isinstance(value, dict):
      yield from _flatten(value)
    else:
      yield name, value
