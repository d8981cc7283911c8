"""Rows: settings and results of each run, in a small JSON file.

If a row is finished, its run is skipped, even on another machine. Imports no
TensorFlow.
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from absl import logging

import bert_tf
from bert_tf.files import atomic, json_files, paths
from research.ablations import runs

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Significant digits of numbers in rows; more only make the files larger.
_DIGITS = 5

Curve = dict[str, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
  """A run that finished or failed."""

  kind: str  # runs.PRETRAINING or runs.FINE_TUNING.
  config: dict[str, Any]  # See runs.Run.config.
  seed: int
  # Hashes of the text and vocabulary files, by name, and of the task's files,
  # by split.
  data: dict[str, str]
  results: dict[str, float]  # Empty for a failed run.
  # Under "training" and "held_out": lists of equal length, by metric and, for
  # the axes, by "step" and "word_pieces". Empty for fine-tunings.
  curve: Curve = dataclasses.field(default_factory=dict)
  error: str | None = None  # None for a finished run.
  seconds: float  # Wall time.
  versions: dict[str, str | None]
  machine: str

  @property
  def is_finished(self) -> bool:
    """Whether the run did not fail."""
    return self.error is None

  @property
  def key(self) -> str:
    """A hash of the config and the seed, but not of the data."""
    return runs.digest({"config": self.config, "seed": self.seed})


def run_key(run: runs.Run) -> str:
  """Returns the `key` that the row of a run has."""
  return runs.digest({"config": run.config, "seed": run.seed})


def row_path(folder: str, run: runs.Run, data: Mapping[str, str]) -> str:
  """Returns the path of a run's row, which contains a hash of the data."""
  return os.path.join(folder, f"{run.name}-{runs.digest(dict(data))[:4]}.json")


def write(path: str, row: Row) -> None:
  """Writes a row, with each list of numbers on one line."""
  values = {k: v for k, v in dataclasses.asdict(row).items() if v is not None}
  text = re.sub(
    r"\[\n[^\]]*\]",
    lambda match: re.sub(r"\n\s*", "", match[0]),
    json.dumps(values, indent=1),
  )
  atomic.write_lines(path, text.splitlines())


def read(path: str) -> Row | None:
  """Returns the row in a file; warns and returns None if it is not a row."""
  try:
    return Row(**json_files.read_object(path, allows_nan=True))
  except (ValueError, TypeError) as error:
    logging.warning("%s is not a row and is ignored: %s", path, error)
    return None


def read_finished(
  folder: str, run: runs.Run, data: Mapping[str, str]
) -> Row | None:
  """Returns the row of a run; None if it is missing, outdated or failed."""
  path = row_path(folder, run, data)
  row = read(path) if paths.exists(path) else None
  if not row or row.config != json.loads(json.dumps(run.config)):
    return None
  return row if row.is_finished else None


def read_all(folder: str) -> list[Row]:
  """Returns all rows in a folder, including those of failed runs."""
  names = paths.matches(os.path.join(folder, "*.json"))
  return [row for path in sorted(names) if (row := read(path))]


def rounded(value: float) -> float:
  """Rounds a number to the significant digits of rows."""
  return float(f"{value:.{_DIGITS}g}")


def versions() -> dict[str, str | None]:
  """Returns the versions of bert_tf, TensorFlow and Python, and the commit."""
  return {
    "bert_tf": bert_tf.__version__,
    "commit": _read_commit(),
    "tensorflow": importlib.metadata.version("tensorflow"),
    "python": platform.python_version(),
  }


def _read_commit() -> str | None:
  """Returns the commit of the checkout; None outside of git."""
  if not (_ROOT / ".git").exists():
    return None
  command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty"]
  try:
    return subprocess.check_output(
      command, stderr=subprocess.DEVNULL, text=True
    ).strip()
  except (OSError, subprocess.CalledProcessError):
    return None


def describe_machine() -> str:
  """Returns the processor architecture and the number of cores."""
  return f"{platform.machine()}, {os.cpu_count()} cores"
