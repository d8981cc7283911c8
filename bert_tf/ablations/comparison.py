"""A run of one's own beside the nearest reference curve."""

import bisect
import dataclasses
import os
from collections.abc import Iterator, Sequence

from bert_tf.ablations import plots, reference, runs
from bert_tf.files import json_files
from bert_tf.formats import run_info
from bert_tf.plots import style
from bert_tf.training import curves, run_log

# A band of few seeds is narrow by chance, so it is widened by this share of
# its mean at either side before a run is said to leave it; that of an accuracy,
# which begins at 0, by as much of 1 at least.
TOLERANCE = 0.05
_LEAST_OF_ACCURACY = 0.01

# What the axes are called where the run's padding is counted, too.
AXES = {**plots.AXES, "word_pieces": "word pieces (the run's with padding)"}

# What makes two curves hard to compare.
_SETTINGS = (
  *("num_hidden_layers", "hidden_size", "vocab_size", "train_batch_size"),
  *("learning_rate", "num_train_steps", "max_seq_length", "no_nsp"),
  "initial_values",
)


@dataclasses.dataclass(frozen=True)
class Own:
  """A run's curves, by name and step, and its settings."""

  curves: curves.Curves
  settings: dict[str, float | bool]
  pieces_per_step: float  # With padding: how much there was is not kept.


@dataclasses.dataclass(frozen=True)
class Leaving:
  """Points in a row where a run is outside of the band."""

  name: str
  side: str  # "above" or "below".
  start: float  # On the axis.
  end: float
  value: float  # Where it is farthest outside.
  low: float  # The band there.
  high: float


def read_run(output_dir: str) -> Own:
  """Reads the events, sizes and settings of a pre-training.

  Raises:
    ValueError: if the folder holds no pre-training with events and commands.
  """
  info = run_info.read_run(output_dir)
  if not info or info.task != "pretraining":
    raise ValueError(
      f"{output_dir} holds no pre-training; give the `output_dir` of one."
    )
  found = curves.read(output_dir)
  if "masked_lm_loss" not in found:
    raise ValueError(f"{output_dir} holds no events of a pre-training.")
  sizes = json_files.read_object(os.path.join(output_dir, run_info.CONFIG_FILE))
  trained = run_log.training_settings(output_dir)
  if not trained:
    raise ValueError(
      f"{os.path.join(output_dir, run_log.FILE)} has no command that trained."
    )
  settings = {**trained, **sizes}
  pieces = settings["train_batch_size"] * settings["max_seq_length"]
  return Own(found, settings, pieces)


def differences(own: Own, other: reference.Reference) -> Iterator[str]:
  """Yields a line for each setting that is not the reference's."""
  for name in _SETTINGS:
    usual = getattr(runs.Pretraining, name, None)
    mine, theirs = own.settings.get(name), other.settings.get(name, usual)
    if name in own.settings and mine != theirs:
      yield f"{name}: {mine} here, {theirs} there"


def leavings(
  own: Own, other: reference.Reference, axis: str
) -> Iterator[Leaving]:
  """Yields where the training curves leave the band, in the band's range."""
  for name in reference.NAMES:
    band = other.bands.get(("training", name))
    if band and name in own.curves:
      x, y = _points(own, name, axis)
      yield from _outside(name, x, y, band, axis)


def _points(own: Own, name: str, axis: str) -> tuple[list[float], list[float]]:
  """Returns a run's curve on an axis, over as many points as it logged."""
  steps = sorted(own.curves[name])
  scale = 1.0 if axis == "step" else own.pieces_per_step
  return [scale * s for s in steps], [own.curves[name][s] for s in steps]


def _outside(
  name: str,
  x: Sequence[float],
  y: Sequence[float],
  band: reference.Band,
  axis: str,
) -> Iterator[Leaving]:
  """Yields the stretches of a curve outside of a band."""
  places = band.axis(axis)
  stretch: list[Leaving] = []
  for at, value in zip(x, y):
    side, low, high = "", 0.0, 0.0
    if places[0] <= at <= places[-1]:
      low, high = between(places, band.low, at), between(places, band.high, at)
      slack = TOLERANCE * abs(between(places, band.mean, at))
      if name.endswith("accuracy"):
        slack = max(slack, _LEAST_OF_ACCURACY)
      low, high = low - slack, high + slack
      side = "above" if value > high else "below" if value < low else ""
    if stretch and stretch[-1].side != side:
      yield _joined(stretch)
      stretch = []
    if side:
      stretch.append(Leaving(name, side, at, at, value, low, high))
  if stretch:
    yield _joined(stretch)


def _joined(stretch: Sequence[Leaving]) -> Leaving:
  """Returns the farthest point of a stretch, with its ends."""
  far = max(stretch, key=lambda p: max(p.value - p.high, p.low - p.value))
  return dataclasses.replace(far, start=stretch[0].start, end=stretch[-1].end)


def between(x: Sequence[float], y: Sequence[float], at: float) -> float:
  """Returns a curve's value at a place, on a line between its neighbours."""
  right = bisect.bisect_left(x, at)
  if right < len(x) and x[right] == at:
    return y[right]
  share = (at - x[right - 1]) / (x[right] - x[right - 1])
  return y[right - 1] + share * (y[right] - y[right - 1])


def describe(one: Leaving, axis: str) -> str:
  """Returns a line that says where a run leaves the band."""
  unit = AXES[axis]
  where = f"at {one.start:,.0f} {unit}"
  if one.end > one.start:
    where = f"from {one.start:,.0f} to {one.end:,.0f} {unit}"
  return (
    f"{plots.CURVES[one.name]} is {one.side} the band {where}: {one.value:.3g} "
    f"where the band is {one.low:.3g} to {one.high:.3g}"
  )


def draw(
  path: str, own: Own, other: reference.Reference, axis: str, run_name: str
) -> None:
  """Draws a run's curves over the reference's bands."""
  names = [
    name
    for name in reference.NAMES
    if name in own.curves and ("training", name) in other.bands
  ]
  with style.picture(path, len(names), 1200, 420) as panels:
    for panel, name in zip(panels, names):
      style.panel(panel, plots.CURVES[name], AXES[axis])
      band = other.bands["training", name]
      places = band.axis(axis)
      style.band(panel, places, band.low, band.high, style.GRAY)
      style.line(panel, places, band.mean, other.name, style.GRAY)
      style.line(panel, *_points(own, name, axis), run_name, style.COLORS[0])
      plots.log_axis(panel)
