"""Reference curves of pre-training, to compare a run with.

A CSV file for each model has mean, minimum and maximum over the seeds at each
point. The experiment `curves` of the ablations writes these files.
"""

import csv
import dataclasses
import glob
import io
import itertools
import json
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.files import atomic, paths, plot_style, text_lines
from research import run_plots

# The curves of this repository's own ablations.
FOLDER = str(
  pathlib.Path(__file__).resolve().parents[1] / "ablations/results/curves"
)

# Titles of panels, by the name of the curve.
TITLES = {
  "masked_lm_loss": "masked-LM loss",
  "masked_lm_accuracy": "masked-LM accuracy",
  "next_sentence_accuracy": "next-sentence accuracy",
}
# Labels of their vertical axes.
UNITS = {name: "fraction (higher is better)" for name in TITLES}
UNITS["masked_lm_loss"] = "nats (lower is better)"

# A reference has curves for training batches and for held-out text.
PARTS = ("training", "held_out")

_COLUMNS = ("part", "name", "step", "word_pieces", "mean", "low", "high")

# The band of a few seeds may be narrow by chance, so it is extended above and
# below by this fraction of the mean. Accuracies start near 0, so their bands
# are extended by at least _MIN_ACCURACY_SLACK.
TOLERANCE = 0.05
_MIN_ACCURACY_SLACK = 0.01

# Settings that make curves hard to compare if they differ.
_SETTINGS = (
  *("num_hidden_layers", "hidden_size", "vocab_size", "train_batch_size"),
  *("learning_rate", "num_train_steps", "max_seq_length", "no_nsp"),
  "initial_values",
)

# Values of settings that a reference file omits.
DEFAULTS = {"no_nsp": False, "initial_values": "random"}


@dataclasses.dataclass(frozen=True)
class Band:
  """A curve over several seeds; all fields have one value per point.

  `low` and `high` are the minimum and maximum over the seeds.
  """

  steps: Sequence[float]
  word_pieces: Sequence[float]
  mean: Sequence[float]
  low: Sequence[float]
  high: Sequence[float]


@dataclasses.dataclass(frozen=True)
class Reference:
  """The curves of a model and its training settings."""

  name: str
  # Training settings, without those that have the value in DEFAULTS.
  settings: Mapping[str, float | str | bool]
  seeds: Sequence[int]
  # Bands by (part, name of the curve); PARTS lists the parts.
  bands: Mapping[tuple[str, str], Band]

  @property
  def size(self) -> float:
    """Number of layers times width squared: the relative cost of a step."""
    layers = float(self.settings["num_hidden_layers"])
    return layers * float(self.settings["hidden_size"]) ** 2


@dataclasses.dataclass(frozen=True)
class Run:
  """The curves of a run, by name and step, and its settings."""

  curves: Mapping[str, Mapping[int, float]]
  settings: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Deviation:
  """A stretch of consecutive points outside the band."""

  name: str
  side: str  # "above" or "below".
  start: int  # First step.
  end: int  # Last step.
  value: float  # Value at the point farthest outside.
  low: float  # Widened band at that point.
  high: float


def write(folder: str, reference: Reference) -> None:
  """Writes a reference as NAME.csv."""
  settings = json.dumps(reference.settings, sort_keys=True)
  text = io.StringIO()
  seeds = " ".join(map(str, reference.seeds))
  text.write(f"# {settings}\n# seeds {seeds}\n")
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(_COLUMNS)
  for (part, name), band in reference.bands.items():
    values = zip(band.mean, band.low, band.high)
    for step, pieces, numbers in zip(band.steps, band.word_pieces, values):
      shown = [f"{number:.5g}" for number in numbers]
      writer.writerow([part, name, step, pieces, *shown])
  path = os.path.join(folder, f"{reference.name}.csv")
  atomic.write_bytes(path, text.getvalue().encode())


def read(path: str) -> Reference:
  """Returns the reference in a CSV file written by `write`."""
  settings, seeds, header, *lines = text_lines.read_text(path).splitlines()
  if not settings.startswith("# {") or header != ",".join(_COLUMNS):
    raise ValueError(f"{path} is not a file of reference curves.")
  points: dict[tuple[str, str], list[list[float]]] = {}
  for part, name, *numbers in csv.reader(lines):
    points.setdefault((part, name), []).append([float(n) for n in numbers])
  return Reference(
    name=os.path.basename(path).removesuffix(".csv"),
    settings=json.loads(settings.removeprefix("# ")),
    seeds=[int(seed) for seed in seeds.split()[2:]],
    bands={key: Band(*zip(*rows)) for key, rows in points.items()},
  )


def read_all(folder: str) -> list[Reference]:
  """Returns the references in a folder; raises ValueError if it has none."""
  names = sorted(paths.matches(os.path.join(glob.escape(folder), "*.csv")))
  if not names:
    raise ValueError(
      f"{folder} has no reference curves; set `reference_dir` to a folder that "
      "the experiment `curves` of the ablations wrote."
    )
  return [read(path) for path in names]


def nearest(
  references: Iterable[Reference], num_hidden_layers: int, hidden_size: int
) -> Reference:
  """Returns the reference whose size is nearest by ratio to the given one."""
  size = num_hidden_layers * hidden_size**2
  return min(references, key=lambda other: abs(math.log(other.size / size)))


def differences(run: Run, reference: Reference) -> Iterator[str]:
  """Yields a line for each setting of the run that differs in the reference."""
  for name in _SETTINGS:
    value = run.settings.get(name)
    expected = reference.settings.get(name, DEFAULTS.get(name))
    if name in run.settings and value != expected:
      yield f"{name}: {value} in the run, {expected} in the reference"


def find_deviations(run: Run, reference: Reference) -> Iterator[Deviation]:
  """Yields the stretches of the training curves outside the reference's bands.

  Ignores an excess within TOLERANCE. The values of a stretch are those of its
  farthest point.
  """
  for name, band in _shared_bands(run, reference).items():
    points = [
      _compare(name, step, value, band)
      for step, value in sorted(run.curves[name].items())
    ]
    for side, group in itertools.groupby(points, key=lambda point: point.side):
      if side:
        stretch = list(group)
        far = max(stretch, key=lambda p: max(p.value - p.high, p.low - p.value))
        yield dataclasses.replace(
          far, start=stretch[0].start, end=stretch[-1].end
        )


def _shared_bands(run: Run, reference: Reference) -> dict[str, Band]:
  """Returns the bands of the training curves that the run has, by name."""
  return {
    name: reference.bands["training", name]
    for name in TITLES
    if name in run.curves and ("training", name) in reference.bands
  }


def _compare(name: str, step: int, value: float, band: Band) -> Deviation:
  """Returns a point; its side is "" inside the band, or where none exists."""
  low, mean, high = (
    float(np.interp(step, band.steps, values))
    for values in (band.low, band.mean, band.high)
  )
  slack = TOLERANCE * abs(mean)
  if name.endswith("accuracy"):
    slack = max(slack, _MIN_ACCURACY_SLACK)
  low, high = low - slack, high + slack
  side = "above" if value > high else "below" if value < low else ""
  if not band.steps[0] <= step <= band.steps[-1]:
    side = ""
  return Deviation(name, side, step, step, value, low, high)


def describe(stretch: Deviation) -> str:
  """Returns a sentence about a stretch outside the band."""
  where = f"at {stretch.start:,} steps"
  if stretch.end > stretch.start:
    where = f"from {stretch.start:,} to {stretch.end:,} steps"
  return (
    f"{TITLES[stretch.name]} is {stretch.side} the band {where}: "
    f"{stretch.value:.3g}, but the band is {stretch.low:.3g} to "
    f"{stretch.high:.3g}"
  )


def draw(path: str, run: Run, reference: Reference, run_name: str) -> None:
  """Plots a run's curves over the bands of the reference."""
  bands = _shared_bands(run, reference)
  with plot_style.open_picture(path, len(bands), 1200, 420) as panels:
    for panel, (name, band) in zip(panels, bands.items()):
      panel.set(title=TITLES[name], xlabel="steps", xscale="log")
      panel.set_ylabel(UNITS[name])
      run_plots.band(panel, band.steps, band.low, band.high, run_plots.GRAY)
      plot_style.draw_line(
        panel, band.steps, band.mean, reference.name, run_plots.GRAY
      )
      steps = sorted(run.curves[name])
      values = [run.curves[name][step] for step in steps]
      plot_style.draw_line(panel, steps, values, run_name, plot_style.COLORS[0])
