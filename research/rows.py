"""Rows: settings and results of each run, in a small JSON file.

If a row is finished, its run is skipped, even on another machine. Imports no
TensorFlow.
"""

import collections
import contextlib
import dataclasses
import glob
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from absl import logging

import bert_tf
from bert_tf import settings
from bert_tf.files import atomic, json_files, paths

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Hexadecimal digits of a hash in a name.
_HASH_DIGITS = 8

# Significant digits of numbers in rows; more only make the files larger.
_DIGITS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
  """A run that finished or failed."""

  config: dict[str, Any]  # The settings of the run, except its seed.
  seed: int
  data: dict[str, str]  # Hashes of the files that the run reads, by name.
  results: dict[str, float]  # Empty for a failed run.
  error: str | None = None  # None for a finished run.
  seconds: float  # Wall time.
  versions: dict[str, str | None]
  machine: str

  @property
  def is_finished(self) -> bool:
    """Whether the run did not fail."""
    return self.error is None


RowType = TypeVar("RowType", bound=Row)


class Run(Protocol):
  """A run to execute."""

  @property
  def name(self) -> str:
    """A file name that is unique to the run."""

  @property
  def config(self) -> dict[str, Any]:
    """All settings but the seed."""


RunType = TypeVar("RunType", bound=Run)


def execute_all(
  pending: Sequence[RunType], execute: Callable[[RunType], Row]
) -> list[str]:
  """Executes runs in order; returns the names of failed runs.

  Args:
    pending: the runs.
    execute: executes a run, writes its row and returns it.
  """
  failed: list[str] = []
  for number, run in enumerate(pending, start=1):
    logging.info("Run %d of %d: %s.", number, len(pending), run.name)
    row = execute(run)
    if row.error:
      failed.append(run.name)
      logging.error("%s failed: %s", run.name, row.error)
    else:
      logging.info("%s took %.0f s.", run.name, row.seconds)
  return failed


def log_plan(
  plan: Sequence[RunType],
  pending: Collection[RunType],
  all_rows: Sequence[Row],
  kind: Callable[[dict[str, Any]], Any],
) -> None:
  """Logs all runs, and the time of pending ones at the pace of finished ones.

  `kind` returns from a config what runs of a similar time have in common.
  """
  for run in plan:
    logging.info("%s %s", "to do" if run in pending else "done ", run.name)
  seconds: dict[Any, list[float]] = collections.defaultdict(list)
  for row in all_rows:
    if row.is_finished:
      seconds[kind(row.config)].append(row.seconds)
  means = {key: statistics.fmean(values) for key, values in seconds.items()}
  kinds = [kind(run.config) for run in pending]
  if estimates := [means[key] for key in kinds if key in means]:
    logging.info(
      "At the pace of finished runs, %d of %d others take about %.1f hours.",
      len(estimates),
      len(pending),
      sum(estimates) / 3600,
    )


def non_defaults(config: settings.Dataclass) -> dict[str, Any]:
  """Returns the settings that differ from their defaults."""
  return {
    field.name: value
    for field in dataclasses.fields(config)
    if (value := getattr(config, field.name)) != field.default
  }


def digest(value: Mapping[str, Any]) -> str:
  """Returns a short hash of a JSON object."""
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def file_hash(path: str) -> str:
  """Returns the first 16 digits of a file's SHA-256."""
  return paths.sha256(path)[:16]


def get_path(folder: str, name: str, data: Mapping[str, str]) -> str:
  """Returns the path of a run's row, which contains a hash of the data."""
  return os.path.join(folder, f"{name}-{digest(dict(data))[:4]}.json")


def write(path: str, row: Row) -> None:
  """Writes a row, with each list of numbers on one line."""
  values = {k: v for k, v in dataclasses.asdict(row).items() if v is not None}
  text = re.sub(
    r"\[\n[^\]]*\]",
    lambda match: re.sub(r"\n\s*", "", match[0]),
    json.dumps(values, indent=1),
  )
  atomic.write_lines(path, text.splitlines())


def read(path: str, row_class: type[RowType]) -> RowType | None:
  """Returns the row in a file; warns and returns None if it is not a row."""
  try:
    return row_class(**json_files.read_object(path))
  except (ValueError, TypeError) as error:
    logging.warning("%s is ignored, as it is not a row: %s", path, error)
    return None


def read_all(folder: str, row_class: type[RowType]) -> list[RowType]:
  """Returns all rows in a folder, including those of failed runs."""
  names = paths.matches(os.path.join(glob.escape(folder), "*.json"))
  return [row for path in sorted(names) if (row := read(path, row_class))]


def read_finished(
  path: str, row_class: type[RowType], config: Mapping[str, Any]
) -> RowType | None:
  """Returns a row; None if it is missing, failed or of another config."""
  row = read(path, row_class) if paths.exists(path) else None
  if not row or row.config != json.loads(json.dumps(config)):
    return None
  return row if row.is_finished else None


def rounded(value: float) -> float:
  """Rounds a number to the significant digits of rows."""
  return float(f"{value:.{_DIGITS}g}")


def versions() -> dict[str, str | None]:
  """Returns the versions of bert_tf, TensorFlow and Python, and the commit."""
  git = ("git", "-C", str(ROOT), "describe", "--always", "--dirty")
  return {
    "bert_tf": bert_tf.__version__,
    # Not that of a repository around an installed copy.
    "commit": ((ROOT / ".git").exists() and _read_output(*git)) or None,
    "tensorflow": importlib.metadata.version("tensorflow"),
    "python": platform.python_version(),
  }


def _read_output(*command: str) -> str:
  """Returns what a command prints; "" if it is missing or fails."""
  try:
    return subprocess.check_output(
      command, stderr=subprocess.DEVNULL, text=True
    ).strip()
  except (OSError, subprocess.CalledProcessError):
    return ""


def describe_versions(row: Row) -> str:
  """Returns the versions of bert_tf and TensorFlow, and the commit if known."""
  commit = row.versions.get("commit")
  return (
    f"bert_tf {row.versions['bert_tf']}{f' ({commit})' if commit else ''} on "
    f"TensorFlow {row.versions['tensorflow']}"
  )


def describe_machine() -> str:
  """Returns the processor, the number of cores, and the GPUs if any."""
  processors = [platform.machine()]
  with contextlib.suppress(OSError):  # Not Linux.
    text = pathlib.Path("/proc/cpuinfo").read_text()
    models = re.findall(r"^model name\s*: (.+)$", text, re.MULTILINE)
    processors = models or processors
  command = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
  gpus = _read_output(*command).splitlines()
  return ", ".join([processors[0], f"{os.cpu_count()} cores", *gpus])
