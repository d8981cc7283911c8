"""Plots a sweep: the results of its cells and their training losses."""

import csv
import io
import os
from collections.abc import Sequence

from bert_tf.files import paths
from bert_tf.plots import style
from bert_tf.tasks import sweeps
from bert_tf.training import curves

# Maximum number of loss curves. More would be hard to distinguish.
_MAX_CURVES = 5
_ROW_HEIGHT = 26  # Pixels of a cell.
_PANEL_HEIGHT = 360  # Minimum height of the picture in pixels.

# Short names of the settings.
_SHORT = {name: word for name, (_, word) in sweeps.SETTINGS.items()}
_METRIC_END = "_mean"


def is_sweep(output_dir: str) -> bool:
  """Returns whether a folder holds the results table of a sweep."""
  return paths.exists(os.path.join(output_dir, sweeps.RESULTS_FILE))


def plot(output_dir: str, plot_file: str, width: int = 1200) -> None:
  """Draws the metric of each cell and the losses of the best cells.

  A cell is a combination of settings. Its metric, by which the sweep ranks the
  cells, has a dot for each run, the mean, and a bar for the standard deviation.
  Its loss is the mean over its runs, in a band from their minimum to their
  maximum.

  Raises:
    ValueError: if the folder holds no sweep, or if matplotlib does not write
      the format of the suffix.
    ImportError: if matplotlib is not installed.
  """
  if not is_sweep(output_dir):
    missing = sweeps.RESULTS_FILE
    raise ValueError(f"{output_dir} is not a sweep's folder: no {missing}.")
  cells = _table(output_dir, sweeps.RESULTS_FILE)
  runs = _table(output_dir, sweeps.RUNS_FILE)
  metric = next(n for n in cells[0] if n.endswith(_METRIC_END))
  metric = metric.removesuffix(_METRIC_END)
  varied = [n for n in _SHORT if len({cell[n] for cell in cells}) > 1]
  height = max(_PANEL_HEIGHT, _ROW_HEIGHT * len(cells) + 90)
  with style.picture(plot_file, 2, width, height) as (results, losses):
    results.set(
      title=style.format_name(metric), xlabel="dots: runs; bars: deviation"
    )
    by_name = {_name(cell, varied): cell for cell in cells}
    values = {
      name: [float(r[metric]) for r in runs if _is_in_cell(r, cell)]
      for name, cell in by_name.items()
    }
    spreads = {n: float(cell[f"{metric}_std"]) for n, cell in by_name.items()}
    style.rows(results, values, spreads)
    best = "best " if len(cells) > _MAX_CURVES else ""
    losses.set(
      title=f"training loss, {best}means in their ranges", xlabel="step"
    )
    for cell in cells[:_MAX_CURVES]:
      folders = [r["folder"] for r in runs if _is_in_cell(r, cell)]
      _draw_loss(losses, output_dir, folders, _name(cell, varied))
    losses.set_xlim(left=0)


def _table(output_dir: str, name: str) -> list[dict[str, str]]:
  """Returns the rows of a table of a sweep."""
  text = paths.read_text(os.path.join(output_dir, name))
  return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


def _is_in_cell(run: dict[str, str], cell: dict[str, str]) -> bool:
  return all(run[name] == cell[name] for name in _SHORT)


def _name(cell: dict[str, str], varied: Sequence[str]) -> str:
  """Returns the name of a cell: the settings that differ between cells."""
  words = [f"{_SHORT[n]} {float(cell[n]):g}" for n in varied]
  return ", ".join(words) or "all runs"


def _draw_loss(
  axis: style.Axes, output_dir: str, folders: Sequence[str], name: str
) -> None:
  """Draws the mean training loss of a cell's runs, and its range."""
  logs = [curves.read(os.path.join(output_dir, f)) for f in folders]
  losses = [log["loss"] for log in logs if "loss" in log]
  if not losses:
    return
  steps, means, low, high = style.aggregate_runs(losses)
  color = style.line(axis, steps, means, name)
  if len(losses) > 1:
    style.band(axis, steps, low, high, color)
