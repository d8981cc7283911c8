"""The pictures of the report."""

import math
from collections.abc import Iterator, Mapping, Sequence

from bert_tf.plots import reference_curves, style
from research.ablations import comparisons, rows

_WIDTH = 1200
_ROW_HEIGHT = 34  # Pixels of a variant.
_EDGES = 110  # Pixels above and below the rows of a panel.

# What a curve can be drawn against.
AXES = {"step": "steps", "word_pieces": "word pieces"}

Points = tuple[list[float], list[float], list[float], list[float]]


def draw_results(path: str, found: comparisons.Comparison) -> None:
  """Draws a panel a column: a row a variant, a dot a seed, mean and spread."""
  columns = [c for c in found.experiment.columns if _has(found, c)]
  labels = [v.label for v in found.experiment.variants]
  height = _EDGES + _ROW_HEIGHT * len(labels)
  with style.picture(path, len(columns), _WIDTH, height) as panels:
    for axis, column in zip(panels, columns):
      cells = {
        label: found.cells[label, column]
        for label in labels
        if (label, column) in found.cells
      }
      style.panel(axis, column, unit(column))
      spreads = {label: cell.spread for label, cell in cells.items()}
      values = {label: cell.values for label, cell in cells.items()}
      style.rows(axis, values, spreads)


def _has(found: comparisons.Comparison, column: str) -> bool:
  return any(name == column for _, name in found.cells)


def unit(column: str) -> str:
  """Returns what the numbers of a column are."""
  if column == "perplexity":
    return "perplexity, held out"
  is_f1 = column.startswith(("SQuAD", "NER"))
  return f"{'F1' if is_f1 else 'accuracy'}, %"


def draw_curves(
  path: str, pretrainings: Mapping[str, Sequence[rows.Row]], axis: str
) -> None:
  """Draws losses and accuracies of pre-trainings, bands over the seeds.

  Args:
    path: PNG or SVG file to write.
    pretrainings: rows by the name of their line.
    axis: "step" or "word_pieces"; on a logarithmic scale, which shows the
      warm-up.
  """
  every = [row for same in pretrainings.values() for row in same]
  drawn = {name for row in every for name in row.curve["training"]}
  names = [n for n in reference_curves.TITLES if n in drawn]
  with style.picture(path, len(names), _WIDTH, 420) as panels:
    for panel, name in zip(panels, names):
      style.panel(panel, reference_curves.TITLES[name], AXES[axis])
      for label, same in pretrainings.items():
        if points := over_seeds(same, name, axis):
          x, mean, low, high = points
          color = style.line(panel, x, mean, label)
          style.band(panel, x, low, high, color)
      reference_curves.log_axis(panel)


def over_seeds(
  same: Sequence[rows.Row], name: str, axis: str, part: str = "training"
) -> Points | None:
  """Returns x, mean, lowest and highest of a curve; None if no row has it."""
  curves = [row.curve[part] for row in same if name in row.curve.get(part, {})]
  if not curves:
    return None
  return style.over_runs([dict(zip(c[axis], c[name])) for c in curves])


def reference(
  name: str, same: Sequence[rows.Row]
) -> reference_curves.Reference:
  """Returns the curves of the seeds of one pre-training, as a reference."""
  bands = {}
  for part in reference_curves.PARTS:
    for curve in reference_curves.TITLES:
      if points := over_seeds(same, curve, "step", part):
        pieces = same[0].curve[part]
        by_step = dict(zip(pieces["step"], pieces["word_pieces"]))
        steps, *values = points
        pieces_at = [by_step[step] for step in steps]
        bands[part, curve] = reference_curves.Band(steps, pieces_at, *values)
  return reference_curves.Reference(
    name=name,
    settings=same[0].config["pretraining"],
    seeds=sorted(row.seed for row in same),
    bands=bands,
  )


def draw_steps(path: str, found: comparisons.Comparison) -> None:
  """Draws results against the steps: a panel a column, a line an objective.

  The labels of the variants are "OBJECTIVE, N steps".
  """
  columns = [c for c in found.experiment.columns if _has(found, c)]
  with style.picture(path, len(columns), _WIDTH, 420) as panels:
    for panel, column in zip(panels, columns):
      style.panel(panel, f"{column}, {unit(column)}", "steps of pre-training")
      for name, points in _by_objective(found, column):
        steps = sorted(points)
        means = [points[step].mean for step in steps]
        color = style.line(panel, steps, means, name)
        spread = [points[step].spread for step in steps]
        spread = [0.0 if math.isnan(s) else s for s in spread]
        low = [m - s for m, s in zip(means, spread)]
        high = [m + s for m, s in zip(means, spread)]
        style.band(panel, steps, low, high, color)


def _by_objective(
  found: comparisons.Comparison, column: str
) -> Iterator[tuple[str, dict[int, comparisons.Cell]]]:
  """Yields an objective and its results by step."""
  by_name: dict[str, dict[int, comparisons.Cell]] = {}
  for variant in found.experiment.variants:
    cell = found.cells.get((variant.label, column))
    name, _, steps = variant.label.rpartition(", ")
    if cell:
      number = int(steps.removesuffix(" steps").replace(",", ""))
      by_name.setdefault(name, {})[number] = cell
  yield from by_name.items()
