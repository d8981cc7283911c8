"""Reference curves: what pre-trainings of known settings looked like.

They are CSV files beside this module, one a model, which the experiment
`curves` writes: a line a point, with mean, lowest and highest over the seeds.
Imports no TensorFlow.
"""

import csv
import dataclasses
import io
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from bert_tf.ablations import plots, rows
from bert_tf.files import atomic, paths

FOLDER = str(pathlib.Path(__file__).resolve().parent / "curves")

# The curves that a reference has, of the loss of training batches and of
# held-out text.
NAMES = tuple(plots.CURVES)
PARTS = ("training", "held_out")

_COLUMNS = ("part", "name", "step", "word_pieces", "mean", "low", "high")


@dataclasses.dataclass(frozen=True)
class Band:
  """A curve over several seeds, by step."""

  steps: Sequence[float]
  word_pieces: Sequence[float]
  mean: Sequence[float]
  low: Sequence[float]
  high: Sequence[float]

  def axis(self, name: str) -> Sequence[float]:
    """Returns the points on an axis: "step" or "word_pieces"."""
    return self.steps if name == "step" else self.word_pieces


@dataclasses.dataclass(frozen=True)
class Reference:
  """The curves of a model, and how it was trained."""

  name: str
  settings: Mapping[str, float | str | bool]  # As runs.Pretraining.
  seeds: Sequence[int]
  # By part and name.
  bands: Mapping[tuple[str, str], Band]

  @property
  def size(self) -> float:
    """Layers times the square of the width: what a step of it costs."""
    layers = float(self.settings["num_hidden_layers"])
    return layers * float(self.settings["hidden_size"]) ** 2


def write(folder: str, name: str, same: Sequence[rows.Row]) -> None:
  """Writes the curves of the seeds of one pre-training as CSV."""
  settings = json.dumps(same[0].config["pretraining"], sort_keys=True)
  seeds = sorted(row.seed for row in same)
  text = io.StringIO()
  text.write(f"# {settings}\n# seeds {' '.join(map(str, seeds))}\n")
  writer = csv.writer(text, lineterminator="\n")
  writer.writerow(_COLUMNS)
  for part in PARTS:
    for curve in NAMES:
      points = plots.over_seeds(same, curve, "step", part)
      if points:
        pieces = same[0].curve[part]
        by_step = dict(zip(pieces["step"], pieces["word_pieces"]))
        for step, *values in zip(*points):
          shown = [f"{value:.5g}" for value in values]
          writer.writerow([part, curve, step, by_step[step], *shown])
  atomic.write(os.path.join(folder, f"{name}.csv"), [text.getvalue()])


def read(path: str) -> Reference:
  """Returns the curves of a CSV file of `write`.

  Raises:
    ValueError: naming the file, if it is another.
  """
  settings, seeds, header, *lines = paths.read_text(path).splitlines()
  if not settings.startswith("# {") or header != ",".join(_COLUMNS):
    raise ValueError(f"{path} is no file of reference curves.")
  points: dict[tuple[str, str], list[list[float]]] = {}
  for part, name, *numbers in csv.reader(lines):
    points.setdefault((part, name), []).append([float(n) for n in numbers])
  return Reference(
    name=os.path.basename(path).removesuffix(".csv"),
    settings=json.loads(settings.removeprefix("# ")),
    seeds=[int(seed) for seed in seeds.split()[2:]],
    bands={key: Band(*zip(*found)) for key, found in points.items()},
  )


def read_all(folder: str) -> list[Reference]:
  """Returns the references of a folder.

  Raises:
    ValueError: if there are none.
  """
  names = sorted(paths.matches(os.path.join(folder, "*.csv")))
  if not names:
    raise ValueError(
      f"{folder} has no reference curves, which the experiment `curves` of the "
      "ablations writes; set `reference_dir`."
    )
  return [read(path) for path in names]


def nearest(
  references: Iterable[Reference], num_hidden_layers: int, hidden_size: int
) -> Reference:
  """Returns the reference of the size that is nearest by its ratio."""
  size = num_hidden_layers * hidden_size**2
  return min(references, key=lambda one: abs(math.log(one.size / size)))
