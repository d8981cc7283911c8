"""Rows: what a run was and what it found, a small JSON file each.

A row that is whole is enough not to run it again, wherever it was written.
Imports no TensorFlow.
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from absl import logging

import bert_tf
from bert_tf.files import atomic, json_files, paths
from research.ablations import runs

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Of the numbers of a curve; more would only make the files larger.
_DIGITS = 5

Curve = dict[str, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
  """One run that was done, or that failed."""

  kind: str  # runs.PRETRAINING or FINE_TUNING.
  config: dict[str, Any]  # As runs.Run.config.
  seed: int
  data: dict[str, str]  # Hashes by file.
  results: dict[str, float]  # Empty where it failed.
  # "training" and "held_out": lists of equal length by name, "step" and
  # "word_pieces" among them. Empty of fine-tunings.
  curve: Curve = dataclasses.field(default_factory=dict)
  error: str | None = None
  seconds: float
  versions: dict[str, str | None]
  machine: str

  @property
  def is_whole(self) -> bool:
    """Whether the run was done to its end."""
    return self.error is None

  @property
  def key(self) -> str:
    """What two rows of the same run have in common, whatever the data."""
    return runs.digest({"config": self.config, "seed": self.seed})


def key_of(run: runs.Run) -> str:
  """Returns `Row.key` of a run."""
  return runs.digest({"config": run.config, "seed": run.seed})


def path_of(folder: str, run: runs.Run, data: Mapping[str, str]) -> str:
  """Returns the file of a run's row."""
  return os.path.join(folder, f"{run.name}-{runs.digest(dict(data))[:4]}.json")


def write(path: str, row: Row) -> None:
  """Writes a row."""
  values = {k: v for k, v in dataclasses.asdict(row).items() if v is not None}
  lines = json.dumps(values, indent=1).splitlines()
  atomic.write_lines(path, _joined(lines))


def _joined(lines: Iterable[str]) -> Iterable[str]:
  """Yields lines of JSON with each list of numbers on one."""
  open_list: list[str] = []
  for line in lines:
    if open_list:
      open_list.append(line.strip())
      if line.strip().startswith("]"):
        yield "".join(open_list)
        open_list = []
    elif line.endswith("["):
      open_list = [line]
    else:
      yield line


def read(path: str) -> Row | None:
  """Returns a file's row, None if it is none; says so."""
  try:
    return Row(**json_files.read_object(path, allows_nan=True))
  except (ValueError, TypeError) as error:
    logging.warning("%s is no row, and is passed over: %s", path, error)
    return None


def whole(folder: str, run: runs.Run, data: Mapping[str, str]) -> Row | None:
  """Returns the row of a run that was done to its end, None without one."""
  path = path_of(folder, run, data)
  row = read(path) if paths.exists(path) else None
  is_same = row and row.config == json.loads(json.dumps(run.config))
  return row if row and is_same and row.is_whole else None


def read_all(folder: str) -> list[Row]:
  """Returns the rows in a folder, those that failed too."""
  names = paths.matches(os.path.join(folder, "*.json"))
  found = (read(path) for path in sorted(names))
  return [row for row in found if row]


def rounded(value: float) -> float:
  """Returns a number with the digits that rows keep."""
  return float(f"{value:.{_DIGITS}g}")


def versions() -> dict[str, str | None]:
  """Returns what the code is: packages, and the commit of a checkout."""
  return {
    "bert_tf": bert_tf.__version__,
    "commit": _commit(),
    "tensorflow": importlib.metadata.version("tensorflow"),
    "python": platform.python_version(),
  }


def _commit() -> str | None:
  """Returns the commit of the checkout, None where there is none."""
  if not (_ROOT / ".git").exists():
    return None
  command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
  try:
    found = subprocess.run(command, capture_output=True, text=True, check=True)
  except (OSError, subprocess.CalledProcessError):
    return None
  return found.stdout.strip()


def machine() -> str:
  """Returns what the run was on."""
  return f"{platform.machine()}, {os.cpu_count()} cores"
