"""Plots of the report."""

import collections
import math
import statistics
from collections.abc import Mapping, Sequence

from bert_tf.files import plot_style
from research import run_plots
from research.ablations import comparisons, runs
from research.curves import reference_curves
from run_scripts import sweep

_WIDTH = 1200
_ROW_HEIGHT = 34  # Pixels per variant.
_MARGIN = 110  # Pixels above and below the rows of a panel.

# Horizontal axes of curves.
AXES = {"step": "steps", "word_pieces": "word pieces"}

# Lists of x, mean, lowest and highest values, of equal length.
Points = tuple[list[float], list[float], list[float], list[float]]


def draw_results(path: str, comparison: comparisons.Comparison) -> None:
  """Draws a panel per column, with a row per variant.

  A row shows a dot per seed, the mean and the standard deviation.
  """
  columns = _drawn_columns(comparison)
  labels = [v.label for v in comparison.experiment.variants]
  height = _MARGIN + _ROW_HEIGHT * len(labels)
  with plot_style.open_picture(path, len(columns), _WIDTH, height) as panels:
    for axis, column in zip(panels, columns):
      cells = {
        label: comparison.cells[label, column]
        for label in labels
        if (label, column) in comparison.cells
      }
      axis.set(title=column, xlabel=unit(column))
      run_plots.rows(axis, cells)


def _drawn_columns(comparison: comparisons.Comparison) -> list[str]:
  columns = {column for _, column in comparison.cells}
  return [c for c in comparison.experiment.columns if c in columns]


def unit(column: str) -> str:
  """Returns the measure and unit of a column."""
  if column == "perplexity":
    return "on held-out text (lower is better)"
  is_f1 = column.startswith(("SQuAD", "NER"))
  return f"{'F1' if is_f1 else 'accuracy'} in % (higher is better)"


def draw_curves(
  path: str, pretrainings: Mapping[str, Sequence[runs.Row]], axis: str
) -> None:
  """Draws losses and accuracies of pre-trainings, with bands over the seeds.

  Args:
    path: PNG or SVG file to write.
    pretrainings: for each line, its label and the rows of its seeds.
    axis: the horizontal axis, "step" or "word_pieces". It is logarithmic, so
      that the warm-up is visible.
  """
  drawn = {
    name
    for same in pretrainings.values()
    for row in same
    for name in row.curve["training"]
  }
  names = [n for n in reference_curves.TITLES if n in drawn]
  with plot_style.open_picture(path, len(names), _WIDTH, 420) as panels:
    for panel, name in zip(panels, names):
      title = reference_curves.TITLES[name]
      panel.set(title=title, xlabel=AXES[axis], xscale="log")
      panel.set_ylabel(reference_curves.UNITS[name])
      for label, same in pretrainings.items():
        if points := summarize_seeds(same, name, axis):
          x, mean, low, high = points
          color = plot_style.draw_line(panel, x, mean, label)
          run_plots.band(panel, x, low, high, color)


def summarize_seeds(
  same: Sequence[runs.Row], name: str, axis: str, part: str = "training"
) -> Points | None:
  """Returns a curve's mean and range over the seeds; None if no row has it.

  Only the places that the curves of all seeds have count.
  """
  curves = [row.curve[part] for row in same if name in row.curve.get(part, {})]
  if not curves:
    return None
  runs = [dict(zip(curve[axis], curve[name])) for curve in curves]
  shared = sorted(set.intersection(*map(set, runs)))
  columns = [[run[x] for run in runs] for x in shared]
  means = [statistics.fmean(column) for column in columns]
  return shared, means, list(map(min, columns)), list(map(max, columns))


def make_reference(
  name: str, same: Sequence[runs.Row]
) -> reference_curves.Reference:
  """Returns the curves of a pre-training's seeds as a reference."""
  bands = {}
  for part in reference_curves.PARTS:
    for curve in reference_curves.TITLES:
      if points := summarize_seeds(same, curve, "step", part):
        axes = same[0].curve[part]
        word_pieces = dict(zip(axes["step"], axes["word_pieces"]))
        steps, *values = points
        bands[part, curve] = reference_curves.Band(
          steps, [word_pieces[step] for step in steps], *values
        )
  return reference_curves.Reference(
    name=name,
    settings=same[0].config["pretraining"],
    seeds=sorted(row.seed for row in same),
    bands=bands,
  )


def draw_steps(path: str, comparison: comparisons.Comparison) -> None:
  """Draws results against steps: a panel per column, a line per objective.

  Labels of variants have the form "OBJECTIVE, N steps".
  """
  columns = _drawn_columns(comparison)
  with plot_style.open_picture(path, len(columns), _WIDTH, 420) as panels:
    for panel, column in zip(panels, columns):
      panel.set(title=f"{column} after fine-tuning at each step")
      panel.set(xlabel="steps of pre-training", ylabel=unit(column))
      lines: dict[str, dict[int, Sequence[float]]]
      lines = collections.defaultdict(dict)
      for variant in comparison.experiment.variants:
        name, _, steps = variant.label.rpartition(", ")
        number = int(steps.removesuffix(" steps").replace(",", ""))
        if cell := comparison.cells.get((variant.label, column)):
          lines[name][number] = cell
      for name, cells in lines.items():
        x = sorted(cells)
        summaries = [sweep.mean_and_spread(cells[step]) for step in x]
        # A single seed has no spread, and its band no height.
        spans = [(m, 0.0 if math.isnan(s) else s) for m, s in summaries]
        color = plot_style.draw_line(
          panel, x, [mean for mean, _ in spans], name
        )
        low = [mean - spread for mean, spread in spans]
        high = [mean + spread for mean, spread in spans]
        run_plots.band(panel, x, low, high, color)
