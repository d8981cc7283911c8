"""Plots of curves in one style.

    with plot_style.open_picture("curves.png", num_panels=2) as (left, right):
      left.set(title="loss", xlabel="step")
      plot_style.draw_line(left, steps, losses, "training")

matplotlib is imported only when something is drawn.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bert_tf.files import atomic, packages

if TYPE_CHECKING:
  from matplotlib.axes import Axes as Axes
else:
  Axes = Any

# Distinguishable in print and with color blindness: Okabe and Ito 2008.
COLORS = ("#0072B2", "#C44E00", "#00805E", "#A8518A", "#8A6D00", "#3A3A3A")

_DPI = 100
_STYLE: dict[Any, Any] = {
  "axes.axisbelow": True,
  "axes.grid": True,
  "axes.prop_cycle": f"cycler(color={list(COLORS)})",
  "axes.spines.right": False,
  "axes.spines.top": False,
  "axes.titlelocation": "left",
  "figure.constrained_layout.use": True,
  "font.size": 9,
  "grid.color": "#E5E7EB",
  "legend.frameon": False,
  "svg.hashsalt": "bert_tf",  # Equal pictures give equal files.
}


@contextlib.contextmanager
def open_picture(
  path: str, num_panels: int = 1, width: int = 1200, panel_height: int = 360
) -> Iterator[list[Axes]]:
  """Yields panels to draw in, then adds their legends and writes the file.

  The panels are side by side if the width, in pixels, has room for them. The
  suffix of the path is the format, such as .png or .svg.

  Raises:
    ValueError: if matplotlib does not write the format of the suffix.
    ImportError: if matplotlib is not installed.
    OSError: if the file cannot be written.
  """
  with packages.needs_extra("drawing", extra="plots"):
    import matplotlib
    from matplotlib import figure
  suffix = os.path.splitext(path)[1].lower().removeprefix(".")
  # A panel has at least 380 pixels; more panels move to the next row.
  num_columns = max(1, min(num_panels, width // 380))
  num_rows = math.ceil(num_panels / num_columns)
  with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
    size = (width / _DPI, num_rows * panel_height / _DPI)
    drawn = figure.Figure(figsize=size, dpi=_DPI)
    grid = drawn.subplots(num_rows, num_columns, squeeze=False)
    panels = list(grid.flat)
    for empty in panels[num_panels:]:
      empty.remove()
    yield panels[:num_panels]
    for axis in panels[:num_panels]:
      _, names = axis.get_legend_handles_labels()
      if names and names != [axis.get_title(loc="left")]:
        axis.legend()
    metadata = {"Date": None} if suffix == "svg" else None
    with atomic.file(path) as unfinished:
      drawn.savefig(unfinished, format=suffix, dpi=_DPI, metadata=metadata)


def draw_line(
  axis: Axes,
  x: Sequence[float],
  y: Sequence[float],
  name: str,
  color: str | None = None,
  are_rare: bool = False,
) -> str:
  """Draws a line and returns its color, by default the next of COLORS.

  Rare measurements, such as evaluations, are circles on a dotted line.
  """
  # A line of one point would be invisible without a marker.
  style: dict[str, Any] = {"marker": "." if len(x) <= 30 else None}
  if are_rare:
    style = {"marker": "o", "ls": ":", "linewidth": 1}
    style["markerfacecolor"] = "white"
  (drawn,) = axis.plot(x, y, label=name, color=color, **style)
  return str(drawn.get_color())
