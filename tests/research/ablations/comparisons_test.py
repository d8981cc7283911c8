"""The numbers of the report, computed again from the papers' formulas."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from research.ablations import comparisons, experiments, runs, scales
from tests.support import ablation_rows

TINY = scales.SCALES["tiny"]
TASKS = ["QNLI", "MRPC", "SST-2", "SQuAD", "NER"]
SEEDS = (1, 2, 3)


def objectives():
  (found,) = experiments.build(("objectives",), TINY, TASKS)
  return found


def rows_of(experiment, column, values):
  """Rows of one column, values by the label of the variant and seed."""
  found = []
  for variant in experiment.variants:
    for seed, value in zip(SEEDS, values.get(variant.label, ())):
      run = runs.Run(
        pretraining=variant.pretraining,
        fine_tuning=variant.fine_tunings[column],
        seed=seed,
      )
      found.append(ablation_rows.row(run, value))
  return found


VALUES = {
  "masked LM and NSP": [62.0, 63.0, 61.0],
  "masked LM, no NSP": [58.0, 57.5, 58.4],  # Lower for sure: as published.
  "left to right, no NSP": [65.0, 66.0, 67.0],  # Higher, published lower.
  "left to right, no NSP, BiLSTM": [64.0, 69.0, 61.0],  # Nothing to say.
  "right to left, no NSP": [50.0],  # One seed.
}


@pytest.fixture(scope="module")
def found():
  experiment = objectives()
  return comparisons.compare(
    experiment, SEEDS, rows_of(experiment, "QNLI", VALUES)
  )


def test_means_and_spreads_are_those_of_numpy(found):
  for label, values in VALUES.items():
    cell = found.cells[label, "QNLI"]
    assert cell.mean == pytest.approx(np.mean(values))
    if len(values) > 1:
      assert cell.spread == pytest.approx(np.std(values, ddof=1))
    else:
      assert math.isnan(cell.spread)


def test_intervals_are_those_of_welch(found):
  for difference in found.differences():
    values, base = VALUES[difference.variant], VALUES[difference.baseline]
    if len(values) < 2:
      assert math.isnan(difference.low) and math.isnan(difference.high)
      continue
    # scipy's own test, which comparisons do not use.
    test = stats.ttest_ind(values, base, equal_var=False)
    expected = test.confidence_interval(0.95)
    assert difference.low == pytest.approx(expected.low)
    assert difference.high == pytest.approx(expected.high)
    assert difference.is_significant == (test.pvalue < 0.05)


def test_each_verdict_is_said_of_what_carries_it(found):
  verdicts = {d.variant: d.verdict for d in found.differences()}
  assert verdicts == {
    "masked LM, no NSP": comparisons.AGREES,
    "left to right, no NSP": comparisons.DIFFERS,
    "left to right, no NSP, BiLSTM": comparisons.WITHIN,
    "right to left, no NSP": comparisons.ONE_SEED,
  }


def test_what_was_not_published_is_called_so():
  experiment = objectives()
  values = {**VALUES, "right to left, no NSP": [50.0, 50.1, 50.2]}
  found = comparisons.compare(
    experiment, SEEDS, rows_of(experiment, "QNLI", values)
  )
  assert found.differences()[-1].verdict == comparisons.UNPUBLISHED


def test_published_differences_are_those_of_table_5(found):
  # Devlin et al. 2019, Table 5, QNLI: 88.4, 84.9, 84.3, 84.1; next sentences,
  # directions and the BiLSTM are each compared with what lacks only these.
  published = {
    (d.variant, d.baseline): d.published for d in found.differences()
  }
  assert published == {
    ("masked LM, no NSP", "masked LM and NSP"): pytest.approx(-3.5),
    ("left to right, no NSP", "masked LM, no NSP"): pytest.approx(-0.6),
    (
      "left to right, no NSP, BiLSTM",
      "left to right, no NSP",
    ): pytest.approx(-0.2),
    ("right to left, no NSP", "masked LM, no NSP"): None,
  }


def test_our_sizes_stand_for_the_papers_in_their_order():
  (sizes,) = experiments.build(("sizes",), TINY, TASKS)
  found = comparisons.compare(sizes, SEEDS, [])
  labels = [v.label for v in sizes.variants]
  # Table 6: perplexities and SST-2 from 3 x 768 to 24 x 1024.
  assert [found.published_number(label, "perplexity") for label in labels] == [
    5.84, 5.24, 4.68, 3.99, 3.54, 3.23,
  ]  # fmt: skip
  assert found.published_number(labels[-1], "SST-2") == 93.7
  assert (
    found.published_number(labels[0], "QNLI") == 77.9
  )  # MNLI's, which is not there.


def test_steps_are_compared_with_all_steps_and_objectives_with_each_other():
  (steps,) = experiments.build(("steps",), TINY, TASKS)
  baselines = {v.label: v.baseline for v in steps.variants}
  assert baselines["masked LM, 300 steps"] == "masked LM, 2,400 steps"
  assert baselines["left to right, 300 steps"] == "masked LM, 300 steps"


def test_runs_are_counted_once_and_failures_are_named():
  experiment = objectives()
  rows = rows_of(experiment, "QNLI", VALUES)
  run = next(iter(experiment.runs([1])))
  failed = ablation_rows.row(run, 0.0, error="ValueError: no")
  found = comparisons.compare(experiment, SEEDS, [*rows, failed])
  # 4 pre-trainings, of which one is fine-tuned in two ways, on 4 tasks.
  assert found.num_planned == 3 * (4 + 5 * 4)
  assert found.num_finished == len(rows) == 13
  assert found.errors == {run.name: "ValueError: no"}


def test_rows_of_the_text_that_most_are_of_are_used():
  run = runs.Run(pretraining=TINY.base, seed=1)
  others = [dataclasses.replace(run, seed=seed) for seed in (2, 3)]
  few = [ablation_rows.row(run, 1.0, text="a")]
  many = [ablation_rows.row(other, 1.0, text="b") for other in others]
  assert comparisons.select_usual_data([*few, *many]) == many
  assert comparisons.select_usual_data([]) == []


def test_rows_of_the_task_data_that_most_are_of_are_used():
  rows = rows_of(objectives(), "QNLI", VALUES)
  old = [
    dataclasses.replace(row, data={**row.data, "train": "other"})
    for row in rows[:3]
  ]
  pretraining = ablation_rows.row(runs.Run(pretraining=TINY.base, seed=1), 1.0)
  for order in ([*old, *rows, pretraining], [pretraining, *rows, *old]):
    found = comparisons.select_usual_data(order)
    assert found == [row for row in order if row not in old]
