"""Draws the results of repeated runs on the panels of bert_tf.plots.style."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.plots import style
from bert_tf.plots.style import Axes

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


def rows(
  axis: Axes,
  values: Mapping[str, Sequence[float]],
  spreads: Mapping[str, float],
) -> None:
  """Draws a row for each name: a dot per run, the mean and the spread.

  A name without finite values gets the text "failed".

  Args:
    axis: the panel.
    values: values of the runs, by name, from top to bottom. NaN and infinity
      are skipped.
    spreads: half the length of a bar around the mean, by name, such as the
      standard deviation; NaN for no bar.
  """
  for place, (name, measured) in enumerate(values.items()):
    finite = [value for value in measured if math.isfinite(value)]
    text = "failed"
    if finite:
      mean = statistics.fmean(finite)
      text = f"{mean:.4g}"
      bar: dict[str, Any] = {"color": style.COLORS[0], "markersize": 12}
      axis.errorbar(mean, place, xerr=spreads[name], fmt="|", **bar)
      axis.plot(finite, [place] * len(finite), ".", color=style.COLORS[1])
    where = axis.get_yaxis_transform()
    axis.text(1.01, place, text, transform=where, va="center")
  axis.set_yticks(range(len(values)), list(values))
  axis.set_ylim(len(values) - 0.4, -0.6)
