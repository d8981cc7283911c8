"""Draws the results of repeated runs on the panels of bert_tf."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.files import plot_style
from bert_tf.files.plot_style import Axes
from run_scripts import sweep

GRAY = "#6B7280"  # Of peers, references and published figures.


def band(
  axis: Axes,
  x: Sequence[float],
  low: Sequence[float],
  high: Sequence[float],
  color: str,
) -> None:
  """Shades the area between two lines: the spread of several runs."""
  axis.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def rows(axis: Axes, values: Mapping[str, Sequence[float]]) -> None:
  """Draws a row for each name: a dot per run, the mean and the spread.

  The bar around the mean is as long as the sample standard deviation on either
  side. A name without finite values gets the text "failed".

  Args:
    axis: the panel.
    values: values of the runs, by name, from top to bottom. NaN and infinity
      are skipped.
  """
  for place, measured in enumerate(values.values()):
    finite = [value for value in measured if math.isfinite(value)]
    text = "failed"
    if finite:
      mean, spread = sweep.mean_and_spread(finite)
      text = f"{mean:.4g}"
      bar: dict[str, Any] = {"color": plot_style.COLORS[0], "markersize": 12}
      axis.errorbar(mean, place, xerr=spread, fmt="|", **bar)
      axis.plot(finite, [place] * len(finite), ".", color=plot_style.COLORS[1])
    where = axis.get_yaxis_transform()
    axis.text(1.01, place, text, transform=where, va="center")
  axis.set_yticks(range(len(values)), list(values))
  axis.set_ylim(len(values) - 0.4, -0.6)
