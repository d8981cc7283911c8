"""What a data set of several files is on disk: their names, a settings file."""

import json
from typing import Any

from bert_tf.files import atomic, paths


def shard_file(output_file: str, index: int, num_shards: int) -> str:
  """Returns the file of one of several shards, `name-00003-of-00064[.gz]`."""
  suffix = ".gz" if output_file.endswith(".gz") else ""
  name = output_file.removesuffix(".gz")
  return f"{name}-{index:05d}-of-{num_shards:05d}{suffix}"


def write_settings(settings: dict[str, Any], note: str) -> None:
  """Writes the settings file, which a resumed run is checked against."""
  atomic.write_lines(note, [json.dumps(settings, indent=2)])


def read_settings(note: str) -> dict[str, Any]:
  """Returns what a settings file says; nothing if it is damaged."""
  try:
    return json.loads(paths.read_text(note))
  except ValueError:
    return {}


def check_same_settings(settings: dict[str, Any], note: str) -> None:
  """Raises ValueError if the run to resume had other settings."""
  before = read_settings(note)
  for name, value in settings.items():
    if name not in before or before[name] != value:
      raise ValueError(
        f"cannot resume: `{name}` differs from the run that made the files "
        f"({note}): {_brief(before.get(name))} then, {_brief(value)} now. Give "
        "the same, or drop `resume` to build everything again."
      )


def _brief(value: Any) -> str:
  text = json.dumps(value)
  return text if len(text) <= 80 else text[:77] + "..."
