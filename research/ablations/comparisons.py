"""Compares variants by their rows: means, spreads, differences and verdicts.

Imports no TensorFlow.
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from research.ablations import runs, variants

# Confidence of the intervals that decide whether a difference is significant.
CONFIDENCE = 0.95

# Verdicts on the difference between a variant and its baseline.
AGREES = "agrees"
DIFFERS = "differs"
WITHIN = "within the spread"
UNPUBLISHED = "not in the paper"
ONE_SEED = "one seed"
VERDICTS = (AGREES, DIFFERS, WITHIN, UNPUBLISHED, ONE_SEED)


@dataclasses.dataclass(frozen=True)
class Difference:
  """A variant minus its baseline, in a column."""

  variant: str
  baseline: str
  column: str
  ours: float  # Difference of the means.
  low: float  # Interval at CONFIDENCE; NaN for a single seed.
  high: float
  published: float | None  # The same difference in the paper.

  @property
  def is_significant(self) -> bool:
    """Whether the interval excludes 0; False for a single seed."""
    return not math.isnan(self.low) and not self.low <= 0 <= self.high

  @property
  def verdict(self) -> str:
    """AGREES or DIFFERS, by sign, or the reason why neither applies."""
    if math.isnan(self.low):
      return ONE_SEED
    if not self.is_significant:
      return WITHIN
    if self.published is None:
      return UNPUBLISHED
    return AGREES if self.ours * self.published > 0 else DIFFERS


@dataclasses.dataclass(frozen=True)
class Comparison:
  """An experiment with its results so far."""

  experiment: variants.Experiment
  # Results, one per seed, by (variant label, column).
  cells: Mapping[tuple[str, str], Sequence[float]]
  # Rows of finished pre-trainings, one per seed, by variant label.
  pretrainings: Mapping[str, Sequence[runs.Row]]
  num_planned: int  # All runs, finished or not.
  num_finished: int  # Runs that have a row without an error.
  errors: Mapping[str, str]  # Error of each failed run, by run name.

  def differences(self) -> list[Difference]:
    """Returns the differences in all columns with results of both variants."""
    first = self.experiment.variants[0].label
    return [
      self._subtract(variant.label, base, column)
      for variant in self.experiment.variants
      if (base := variant.baseline or first) != variant.label
      for column in self.experiment.columns
      if {(variant.label, column), (base, column)} <= self.cells.keys()
    ]

  def _subtract(self, label: str, base: str, column: str) -> Difference:
    cell, base_cell = self.cells[label, column], self.cells[base, column]
    low, high = interval(cell, base_cell)
    ours = statistics.fmean(cell) - statistics.fmean(base_cell)
    published, published_base = (
      self.published_number(name, column) for name in (label, base)
    )
    theirs = None
    if published is not None and published_base is not None:
      theirs = round(published - published_base, 6)
    return Difference(label, base, column, ours, low, high, theirs)

  def published_number(self, label: str, column: str) -> float | None:
    """Returns a variant's published result in one of our columns, or None."""
    published = self.experiment.published
    if not published:
      return None
    name = published.columns(self.experiment.columns).get(column)
    row = published.row_names.get(label, label)
    return published.numbers.get(row, {}).get(name or "")


def interval(
  values: Sequence[float], others: Sequence[float]
) -> tuple[float, float]:
  """Returns the confidence interval of a difference of means, by Welch's t.

  Both ends are NaN if either side has a single value. Values without any spread
  have an interval of width 0, where SciPy divides by 0.
  """
  if min(len(values), len(others)) < 2:
    return math.nan, math.nan
  if len({*values}) == len({*others}) == 1:
    difference = values[0] - others[0]
    return difference, difference
  from scipy import stats

  test = stats.ttest_ind(values, others, equal_var=False)
  low, high = test.confidence_interval(CONFIDENCE)
  return float(low), float(high)


def compare(
  experiment: variants.Experiment,
  seeds: Sequence[int],
  all_rows: Iterable[runs.Row],
) -> Comparison:
  """Returns the results of an experiment.

  Args:
    experiment: the experiment, with its variants.
    seeds: seeds of the runs.
    all_rows: at most one row per run, all with the same data; see
      `select_usual_data`.
  """
  by_key = {runs.key(row): row for row in all_rows}
  values: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
  pretrainings: dict[str, list[runs.Row]] = {}
  errors: dict[str, str] = {}
  is_finished: dict[runs.Run, bool] = {}
  for variant in experiment.variants:
    for seed in sorted(set(seeds)):
      perplexity = variants.PERPLEXITY if variant.has_perplexity else ""
      columns = [perplexity, *variant.fine_tunings]
      for column, run in zip(columns, variant.runs(seed)):
        row = by_key.get(runs.key(run))
        is_finished[run] = bool(row and row.is_finished)
        if not row:
          continue
        if row.error:
          errors[run.name] = row.error
          continue
        is_pretraining = row.kind == runs.PRETRAINING
        if column:
          name = column if is_pretraining else "score"
          values[variant.label, column].append(row.results[name])
        if is_pretraining:
          pretrainings.setdefault(variant.label, []).append(row)
  return Comparison(
    experiment,
    values,
    pretrainings,
    len(is_finished),
    sum(is_finished.values()),
    errors,
  )


def select_usual_data(all_rows: Sequence[runs.Row]) -> list[runs.Row]:
  """Returns the rows of the most common text and of each task's common data.

  Results from different data are therefore never compared.
  """
  by_task: dict[tuple, list[runs.Row]] = collections.defaultdict(list)
  same_text = _select_most_common(
    all_rows,
    lambda row: [row.data[n] for n in sorted(row.data) if n.endswith(".txt")],
  )
  for row in same_text:
    task = row.config.get("fine_tuning", {})
    by_task[task.get("task"), task.get("num_examples")].append(row)
  selected = {
    id(row)
    for task_rows in by_task.values()
    for row in _select_most_common(
      task_rows, lambda row: [row.data.get(s, "") for s in ("train", "dev")]
    )
  }
  return [row for row in same_text if id(row) in selected]


def _select_most_common(
  all_rows: Sequence[runs.Row], hashes: Callable[[runs.Row], list[str]]
) -> list[runs.Row]:
  """Returns the rows whose data have the hashes that most rows have."""
  names = ["/".join(hashes(row)) for row in all_rows]
  if not names:
    return []
  ((usual, _),) = collections.Counter(names).most_common(1)
  return [row for row, name in zip(all_rows, names) if name == usual]
