"""Statistics of the report, against NumPy, SciPy and the papers."""

import math

import pytest

from research.ablations import comparisons, experiments, runs, scales
from tests.support import ablation_rows

TINY = scales.SCALES["tiny"]
TASKS = ["QNLI", "MRPC", "SST-2", "SQuAD", "NER"]
SEEDS = (1, 2, 3)


def build_objectives():
  (experiment,) = experiments.build(("objectives",), TINY, TASKS)
  return experiment


def make_rows(experiment, column, values):
  """Returns rows of a column, from values by variant and seed."""
  rows = []
  for variant in experiment.variants:
    for seed, value in zip(SEEDS, values.get(variant.label, ())):
      run = runs.Run(
        pretraining=variant.pretraining,
        fine_tuning=variant.fine_tunings[column],
        seed=seed,
      )
      rows.append(ablation_rows.row(run, value))
  return rows


VALUES = {
  "masked LM and NSP": [62.0, 63.0, 61.0],
  "masked LM, no NSP": [58.0, 57.5, 58.4],  # Lower, as published.
  "left to right, no NSP": [65.0, 66.0, 67.0],  # Higher, published lower.
  "left to right, no NSP, BiLSTM": [64.0, 69.0, 61.0],  # Too much spread.
  "right to left, no NSP": [50.0],  # One seed.
}


@pytest.fixture(scope="module")
def comparison():
  experiment = build_objectives()
  return comparisons.compare(
    experiment, SEEDS, make_rows(experiment, "QNLI", VALUES)
  )


def test_intervals_are_those_of_welch(comparison):
  first, *_, last = comparison.differences()
  # By hand: variances 1 and 0.2033, 2.781 degrees of freedom, t = 3.3290.
  assert (first.low, first.high) == pytest.approx((-6.142, -1.925), abs=1e-3)
  assert math.isnan(last.low) and math.isnan(last.high)
  assert comparisons.interval([3.0, 3.0], [1.0, 1.0]) == (2.0, 2.0)


def test_each_verdict_is_reached(comparison):
  verdicts = {d.variant: d.verdict for d in comparison.differences()}
  assert verdicts == {
    "masked LM, no NSP": comparisons.AGREES,
    "left to right, no NSP": comparisons.DIFFERS,
    "left to right, no NSP, BiLSTM": comparisons.WITHIN,
    "right to left, no NSP": comparisons.ONE_SEED,
  }


def test_published_differences_are_those_of_table_5(comparison):
  # Devlin et al. 2019, Table 5, QNLI: 88.4, 84.9, 84.3, 84.1. The baseline of
  # each variant lacks only the tested feature.
  published = {
    (d.variant, d.baseline): d.published for d in comparison.differences()
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


def test_sizes_correspond_to_the_papers_in_order():
  (sizes,) = experiments.build(("sizes",), TINY, TASKS)
  comparison = comparisons.compare(sizes, SEEDS, [])
  labels = [v.label for v in sizes.variants]
  # Table 6: perplexities and SST-2 from 3 x 768 to 24 x 1024.
  perplexities = [
    comparison.published_number(label, "perplexity") for label in labels
  ]
  assert perplexities == [5.84, 5.24, 4.68, 3.99, 3.54, 3.23]
  assert comparison.published_number(labels[-1], "SST-2") == 93.7
  # MNLI has no data, so QNLI stands for it.
  assert comparison.published_number(labels[0], "QNLI") == 77.9
