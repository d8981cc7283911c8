"""What the rows say: means, spreads, differences and what they carry.

Imports no TensorFlow.
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from research.ablations import rows, runs, variants

# How sure a difference has to be before it is called one.
CONFIDENCE = 0.95

AGREES = "agrees"
DIFFERS = "differs"
WITHIN = "within the spread"
UNPUBLISHED = "not in the paper"
ONE_SEED = "one seed"


@dataclasses.dataclass(frozen=True)
class Cell:
  """A result of a variant, of each seed that was run."""

  by_seed: Mapping[int, float]

  @property
  def values(self) -> list[float]:
    """The values in the order of the seeds."""
    return [self.by_seed[seed] for seed in sorted(self.by_seed)]

  @property
  def mean(self) -> float:
    """The mean over the seeds."""
    return statistics.fmean(self.values)

  @property
  def spread(self) -> float:
    """The sample standard deviation over the seeds; NaN of one seed."""
    return statistics.stdev(self.values) if len(self.by_seed) > 1 else math.nan


@dataclasses.dataclass(frozen=True)
class Difference:
  """A variant less its baseline, in a column."""

  variant: str
  baseline: str
  column: str
  ours: float  # Of the means.
  low: float  # Of the interval at CONFIDENCE; NaN of one seed.
  high: float
  published: float | None  # The same difference there.

  @property
  def is_real(self) -> bool:
    """Whether the spread over seeds carries that there is a difference."""
    return not math.isnan(self.low) and not self.low <= 0 <= self.high

  @property
  def verdict(self) -> str:
    """What ours says of the difference that was published."""
    if math.isnan(self.low):
      return ONE_SEED
    if not self.is_real:
      return WITHIN
    if self.published is None:
      return UNPUBLISHED
    return AGREES if self.ours * self.published > 0 else DIFFERS


@dataclasses.dataclass(frozen=True)
class Comparison:
  """An experiment with what was found so far."""

  experiment: variants.Experiment
  cells: Mapping[tuple[str, str], Cell]  # By variant and column.
  pretrainings: Mapping[str, Sequence[rows.Row]]  # Whole ones by variant.
  num_planned: int  # Runs.
  num_whole: int
  failed: Mapping[str, str]  # Errors by name.

  def differences(self) -> list[Difference]:
    """Returns what each variant adds to its baseline, column by column."""
    first = self.experiment.variants[0].label
    return [
      self._difference(variant.label, base, column)
      for variant in self.experiment.variants
      if (base := variant.baseline or first) != variant.label
      for column in self.experiment.columns
      if {(variant.label, column), (base, column)} <= self.cells.keys()
    ]

  def _difference(self, label: str, base: str, column: str) -> Difference:
    one, other = self.cells[label, column], self.cells[base, column]
    low, high = interval(one.values, other.values)
    published = self._published(label, base, column)
    ours = one.mean - other.mean
    return Difference(label, base, column, ours, low, high, published)

  def number(self, label: str, column: str) -> float | None:
    """Returns what was published for a variant in a column of ours."""
    published = self.experiment.published
    if not published:
      return None
    name = published.columns(self.experiment.columns).get(column)
    row = published.row_names.get(label, label)
    return published.numbers.get(row, {}).get(name or "")

  def _published(self, label: str, first: str, column: str) -> float | None:
    one, base = self.number(label, column), self.number(first, column)
    if one is None or base is None:
      return None
    return round(one - base, 6)


def interval(
  values: Sequence[float], others: Sequence[float]
) -> tuple[float, float]:
  """Returns where the difference of two means lies, by Welch's t.

  Both ends are NaN where either has one value: it has no spread. Values that do
  not spread at all have an interval of no width.
  """
  if min(len(values), len(others)) < 2:
    return math.nan, math.nan
  from scipy import stats

  difference = statistics.fmean(values) - statistics.fmean(others)
  parts = [statistics.variance(v) / len(v) for v in (values, others)]
  error = math.sqrt(sum(parts))
  if not error:
    return difference, difference
  # Welch and Satterthwaite's degrees of freedom.
  freedom = sum(parts) ** 2 / sum(
    part**2 / (len(v) - 1) for part, v in zip(parts, (values, others))
  )
  reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
  return difference - reach, difference + reach


def compare(
  experiment: variants.Experiment,
  seeds: Sequence[int],
  all_rows: Iterable[rows.Row],
) -> Comparison:
  """Returns what rows say of an experiment.

  There is one row of a run at most, as `one_source` leaves them.
  """
  by_key = {row.key: row for row in all_rows}
  cells: dict[tuple[str, str], dict[int, float]] = collections.defaultdict(dict)
  pretrainings: dict[str, list[rows.Row]] = {}
  failed: dict[str, str] = {}
  planned: dict[runs.Run, bool] = {}
  for variant in experiment.variants:
    for seed in seeds:
      for column, run in _columns(variant, seed):
        row = by_key.get(rows.key_of(run))
        planned[run] = bool(row and row.is_whole)
        if row and row.error:
          failed[run.name] = row.error
        elif row and column:
          cells[variant.label, column][seed] = _value(row, column)
        if row and row.is_whole and row.kind == runs.PRETRAINING:
          same = pretrainings.setdefault(variant.label, [])
          if row not in same:
            same.append(row)
  return Comparison(
    experiment,
    {key: Cell(values) for key, values in cells.items()},
    pretrainings,
    len(planned),
    sum(planned.values()),
    failed,
  )


def _columns(
  variant: variants.Variant, seed: int
) -> Iterable[tuple[str, runs.Run]]:
  """Yields column and run; the pre-training's column is "" without one."""
  pretraining, *fine_tunings = variant.runs(seed)
  column = variants.PERPLEXITY if variant.has_perplexity else ""
  yield column, pretraining
  yield from zip(variant.fine_tunings, fine_tunings)


def _value(row: rows.Row, column: str) -> float:
  """Returns the number of a row that a table has."""
  is_pretraining = row.kind == runs.PRETRAINING
  return row.results[column if is_pretraining else "score"]


def one_source(all_rows: Sequence[rows.Row]) -> list[rows.Row]:
  """Returns the rows of the text, and of each task's data, that most are of."""
  same_text = _of_usual(all_rows, text_of)
  by_task: dict[tuple, list[rows.Row]] = collections.defaultdict(list)
  for row in same_text:
    task = row.config.get("fine_tuning", {})
    by_task[task.get("task"), task.get("num_examples")].append(row)
  usual = (_of_usual(of_task, _task_data_of) for of_task in by_task.values())
  kept = {id(row) for of_task in usual for row in of_task}
  return [row for row in same_text if id(row) in kept]


def _of_usual(
  all_rows: Sequence[rows.Row], name_of: Callable[[rows.Row], str]
) -> list[rows.Row]:
  """Returns the rows whose name is that of most."""
  names = [name_of(row) for row in all_rows]
  if not names:
    return []
  ((usual, _),) = collections.Counter(names).most_common(1)
  return [row for row, name in zip(all_rows, names) if name == usual]


def _task_data_of(row: rows.Row) -> str:
  """Returns what tells a task's data from others; "" of a pre-training."""
  return "/".join(row.data.get(split, "") for split in ("train", "dev"))


def text_of(row: rows.Row) -> str:
  """Returns what tells the text that a row is of from others."""
  return "/".join(row.data[n] for n in sorted(row.data) if n.endswith(".txt"))


def verdicts(differences: Iterable[Difference]) -> dict[str, int]:
  """Returns how many differences have each verdict."""
  return dict(collections.Counter(d.verdict for d in differences))
