"""Rows of ablation runs: see research/rows.py. Imports no TensorFlow."""

import dataclasses

from research import rows
from research.ablations import runs

Curve = dict[str, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(rows.Row):
  """A run that finished or failed.

  `config` is that of `runs.Run`. `data` has the hashes of the text and
  vocabulary files, by name, and of the task's files, by split.
  """

  kind: str  # runs.PRETRAINING or runs.FINE_TUNING.
  # Under "training" and "held_out": lists of equal length, by metric and, for
  # the axes, by "step" and "word_pieces". Empty for fine-tunings.
  curve: Curve = dataclasses.field(default_factory=dict)

  @property
  def key(self) -> str:
    """A hash of the config and the seed, but not of the data."""
    return rows.digest({"config": self.config, "seed": self.seed})


def run_key(run: runs.Run) -> str:
  """Returns the `key` that the row of a run has."""
  return rows.digest({"config": run.config, "seed": run.seed})


def read_all(folder: str) -> list[Row]:
  """Returns all rows in a folder, including those of failed runs."""
  return rows.read_all(folder, Row)
