"""The common style of all plots, as PNG or SVG.

    with style.picture("curves.png", num_panels=2) as (left, right):
      style.panel(left, "loss", "step")
      style.line(left, steps, losses, "loss")

The name of a line is at its right end, in its color, because a legend would
cover the lines. matplotlib is imported only when something is drawn.
"""

import contextlib
import math
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.files import atomic, errors

if TYPE_CHECKING:
  from matplotlib.axes import Axes
else:
  Axes = Any

FORMATS = ("png", "svg")

# Distinguishable in print and with color blindness: Okabe and Ito 2008.
COLORS = ("#0072B2", "#C44E00", "#00805E", "#A8518A", "#8A6D00", "#3A3A3A")
GRAY = "#6B7280"

# Lines with at most this many points have markers.
_MAX_MARKERS = 30
_DPI = 100
_MIN_PANEL_WIDTH = 380  # Pixels; narrower panels move to the next row.
_GAP = 6  # Points between a line and its name.
_NAME = "name of a line"  # Marks the texts that name lines (their gid).
_RIGHT_EDGE = ("axes fraction", "data")  # x from 0 to 1, y in the data's unit.
_POINTS_PER_INCH = 72
_LINE_SPACING = 1.25  # Distance of names, in text heights.

_STYLE: dict[Any, Any] = {
  "font.size": 10,
  "axes.titlesize": 11,
  "axes.titleweight": "bold",
  "axes.titlelocation": "left",
  "axes.spines.top": False,
  "axes.spines.right": False,
  "axes.edgecolor": GRAY,
  "axes.labelcolor": "#374151",
  "xtick.color": "#374151",
  "ytick.color": "#374151",
  "axes.grid": True,
  "axes.axisbelow": True,
  "grid.color": "#E5E7EB",
  "lines.linewidth": 1.8,
  "lines.markersize": 4.5,
  "figure.constrained_layout.use": True,
  "figure.constrained_layout.h_pad": 0.1,
  "figure.constrained_layout.w_pad": 0.1,
  "savefig.facecolor": "white",
  # Equal pictures give equal files.
  "svg.hashsalt": "bert_tf",
}

# Spelling of words in titles.
_WORDS = {
  "eval": "held-out",
  "masked lm": "masked-LM",
  "next sentence": "next-sentence",
  "lm": "LM",
  "f1": "F1",
  "mcc": "MCC",
}


@contextlib.contextmanager
def picture(
  path: str, num_panels: int = 1, width: int = 1200, panel_height: int = 360
) -> Iterator[list[Axes]]:
  """Yields panels to draw in, then labels their lines and writes the file.

  Panels are side by side if the width has room for them.

  Args:
    path: file to write; its suffix is one of FORMATS.
    num_panels: number of panels.
    width: width of the picture in pixels.
    panel_height: height of each row of panels in pixels.

  Raises:
    ValueError: for another suffix, or a width too small for a panel.
    ImportError: if matplotlib is not installed.
    OSError: if the file cannot be written.
  """
  kind = check_path(path)
  if width < _MIN_PANEL_WIDTH:
    raise ValueError(
      f"a width of {width} pixels has no room for a panel; use "
      f"{_MIN_PANEL_WIDTH} or more."
    )
  with errors.needs_extra("drawing", extra="plots"):
    import matplotlib
    from matplotlib import figure
  num_columns = min(num_panels, width // _MIN_PANEL_WIDTH)
  num_rows = math.ceil(num_panels / num_columns)
  settings: dict[Any, Any] = {**matplotlib.rcParamsDefault}
  with matplotlib.rc_context(settings | _STYLE):
    size = (width / _DPI, num_rows * panel_height / _DPI)
    drawn = figure.Figure(figsize=size, dpi=_DPI)
    grid = drawn.subplots(num_rows, num_columns, squeeze=False)
    panels = list(grid.flat)
    for empty in panels[num_panels:]:
      empty.remove()
    yield panels[:num_panels]
    for axis in panels[:num_panels]:
      _name_lines(axis)
    # The layout makes room for the names, which moves them.
    drawn.draw_without_rendering()
    for axis in panels[:num_panels]:
      _move_names_apart(axis)
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with atomic.file(path) as unfinished:
      drawn.savefig(unfinished, format=kind, dpi=_DPI, metadata=metadata)


def check_path(path: str) -> str:
  """Returns the format of a picture by its suffix.

  Raises:
    ValueError: if the format is not in FORMATS.
  """
  kind = os.path.splitext(path)[1].lower().removeprefix(".")
  if kind not in FORMATS:
    raise ValueError(f"{path} has no suffix .png or .svg; choose one of them.")
  return kind


def format_name(name: str) -> str:
  """Returns the name of a result as words, such as masked-LM loss or F1."""
  text = name.replace("_", " ")
  for word, better in _WORDS.items():
    text = re.sub(rf"\b{word}\b", better, text)
  return text


def panel(axis: Axes, title: str, xlabel: str) -> None:
  """Sets the title and the x label of a panel, and short tick labels."""
  from matplotlib import ticker

  axis.set(title=title, xlabel=xlabel)
  axis.xaxis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
  for numbers in (axis.xaxis, axis.yaxis):
    numbers.set_major_formatter(
      ticker.FuncFormatter(lambda v, _: format_number(v))
    )


def format_number(value: float) -> str:
  """Formats a number briefly: 20k, 0.25, 5e-5."""
  size = abs(value)
  for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
    if size >= limit:
      unit = min(limit, 1e3) if letter == "k" else limit
      return f"{value / unit:.4g}{letter}"
  if size >= 1e-3 or not size:
    return f"{value:.4g}"
  digits, exponent = f"{value:.2e}".split("e")
  return f"{float(digits):g}e{int(exponent)}"


def line(
  axis: Axes,
  x: Sequence[float],
  y: Sequence[float],
  name: str,
  color: str | None = None,
) -> str:
  """Draws a line, with markers if it has few points; returns its color."""
  marker = "o" if len(x) <= _MAX_MARKERS else ""
  color = color or _next_color(axis)
  (drawn,) = axis.plot(x, y, marker=marker, color=color)
  drawn.set_gid(name)
  return color


def points(
  axis: Axes,
  x: Sequence[float],
  y: Sequence[float],
  name: str,
  color: str | None = None,
) -> str:
  """Draws points joined by a thin line; returns their color.

  Use it for rare measurements, such as evaluations.
  """
  color = color or _next_color(axis)
  (drawn,) = axis.plot(
    x,
    y,
    linestyle=(0, (2, 2)),
    linewidth=1,
    marker="o" if len(x) <= _MAX_MARKERS else ".",
    markerfacecolor="white",
    markeredgewidth=1.4,
    markersize=6 if len(x) <= _MAX_MARKERS else 3,
    color=color,
  )
  drawn.set_gid(name)
  return color


def aggregate_runs(
  curves: Sequence[Mapping[Any, float]],
) -> tuple[list[float], list[float], list[float], list[float]]:
  """Returns x, mean, minimum and maximum of y over the curves of several runs.

  Uses only the x that all curves have.

  Args:
    curves: y by x of each run.
  """
  shared = sorted(set.intersection(*map(set, curves)))
  columns = [[curve[x] for curve in curves] for x in shared]
  means = [statistics.fmean(column) for column in columns]
  return shared, means, list(map(min, columns)), list(map(max, columns))


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
  spreads: Mapping[str, float] | None = None,
) -> None:
  """Draws a row for each name: a dot per run, the mean and the spread.

  A name without finite values gets the text "failed".

  Args:
    axis: the panel.
    values: values of the runs, by name, from top to bottom. NaN and infinity
      are skipped.
    spreads: half the length of a bar around the mean, by name, such as the
      standard deviation.
  """
  for place, (name, measured) in enumerate(values.items()):
    finite = [value for value in measured if math.isfinite(value)]
    if finite:
      spread = (spreads or {}).get(name, math.nan)
      _draw_row(axis, place, finite, spread)
    else:
      where = axis.get_yaxis_transform()
      axis.text(0.02, place, "failed", transform=where, color=GRAY, va="center")
  _name_rows(axis, list(values))


def _draw_row(
  axis: Axes, place: int, values: Sequence[float], spread: float
) -> None:
  """Draws the dots of a row, its mean and its spread, if finite."""
  color = COLORS[0]
  mean = sum(values) / len(values)
  if math.isfinite(spread):
    axis.plot(
      [mean - spread, mean + spread],
      [place, place],
      color=color,
      alpha=0.35,
      linewidth=7,
      solid_capstyle="butt",
    )
  if len(values) > 1:
    axis.plot(
      values, [place] * len(values), "o", color=color, alpha=0.6, markersize=4
    )
  axis.plot(mean, place, "|", color=color, markersize=15, markeredgewidth=2.5)
  _write(axis, f"{mean:.4g}", (1, place), _RIGHT_EDGE, color=color)


def bars(
  axis: Axes,
  values: Mapping[str, float],
  runs: Mapping[str, Sequence[float]] | None = None,
  highlighted: Sequence[str] = (),
) -> None:
  """Draws a bar for each name, followed by its value, with a dot per run.

  Args:
    axis: the panel.
    values: lengths of the bars, by name, from top to bottom.
    runs: single measurements, by name.
    highlighted: names drawn in the first color; empty for all.
  """
  ends = []
  for place, (name, value) in enumerate(values.items()):
    is_highlighted = not highlighted or name in highlighted
    color = COLORS[0] if is_highlighted else GRAY
    axis.barh(place, value, height=0.62, color=color, alpha=0.75)
    measured = list((runs or {}).get(name, ()))
    if len(measured) > 1:
      axis.plot(measured, [place] * len(measured), "k.", markersize=5)
    ends.append(max([value, *measured]))
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    _write(axis, text, (ends[-1], place), "data")
  axis.set_xlim(0, 1.12 * max(ends))
  _name_rows(axis, list(values))


def _write(
  axis: Axes, text: str, xy: tuple[float, float], xycoords: Any, **style: Any
) -> Any:
  """Writes a text to the right of a point and returns it."""
  position: Any = {"xytext": (_GAP, 0), "textcoords": "offset points"}
  return axis.annotate(
    text, xy, xycoords=xycoords, va="center", **position, **style
  )


def _name_rows(axis: Axes, names: Sequence[str]) -> None:
  """Labels the rows, the first at the top."""
  axis.set_yticks(range(len(names)), names)
  axis.tick_params(axis="y", length=0)
  axis.set_ylim(len(names) - 0.4, -0.6)
  axis.grid(visible=False, axis="y")


def _next_color(axis: Axes) -> str:
  """Returns the first color that no line has; repeats if all are used."""
  used = [drawn.get_color() for drawn in axis.get_lines()]
  free = (color for color in COLORS if color not in used)
  return next(free, COLORS[len(used) % len(COLORS)])


def _name_lines(axis: Axes) -> None:
  """Writes the name of each line at its right end, unless it is the title."""
  for drawn in axis.get_lines():
    name = drawn.get_gid()
    heights = [v for v in np.asarray(drawn.get_ydata()) if math.isfinite(v)]
    if not name or not heights or name == axis.get_title(loc="left"):
      continue
    style: Any = {"color": drawn.get_color(), "annotation_clip": False}
    text = _write(axis, name, (1, heights[-1]), _RIGHT_EDGE, **style)
    text.set_gid(_NAME)


def _move_names_apart(axis: Axes) -> None:
  """Moves the names of lines so that they do not overlap."""
  texts: list[Any] = [text for text in axis.texts if text.get_gid() == _NAME]
  boxes = [text.get_window_extent() for text in texts]
  if not boxes:
    return
  middles = [(box.y0 + box.y1) / 2 for box in boxes]
  step = _LINE_SPACING * max(box.height for box in boxes)
  for text, old, new in zip(texts, middles, _spread_out(middles, step)):
    text.xyann = (_GAP, (new - old) * _POINTS_PER_INCH / _DPI)


def _spread_out(places: Sequence[float], step: float) -> list[float]:
  """Returns positions moved as little as needed to be a step apart or more."""
  order = sorted(range(len(places)), key=lambda i: places[i])
  # Groups of touching names; each group is centered on its members.
  groups: list[list[int]] = []
  for i in order:
    groups.append([i])
    while len(groups) > 1 and _touch(groups[-2], groups[-1], places, step):
      last = groups.pop()
      groups[-1].extend(last)
  moved = list(places)
  for group in groups:
    for number, i in enumerate(group):
      moved[i] = _middle(group, places) + step * (number - (len(group) - 1) / 2)
  return moved


def _middle(group: Sequence[int], places: Sequence[float]) -> float:
  return sum(places[i] for i in group) / len(group)


def _touch(
  lower: Sequence[int],
  upper: Sequence[int],
  places: Sequence[float],
  step: float,
) -> bool:
  """Returns whether two groups of names are closer than a step."""
  between = _middle(upper, places) - _middle(lower, places)
  return between < step * (len(lower) + len(upper)) / 2
