"""Published figures, and what the report concludes from rows."""

import math

import pytest

from bert_tf.checkpoint import download
from research import rows
from research.ablations import papers
from research.reproduction import config as config_lib
from research.reproduction import report, targets

BASE = targets.BASE


def make_row(task, seed, rate="5e-5", error=None, **results):
  config = {
    "model": BASE,
    "task": task,
    "train_batch_size": 32,
    "learning_rate": rate,
    "num_train_epochs": 3.0,
    "max_seq_length": 128,
    "flags": {},
  }
  return report.Row(
    config=config,
    seed=seed,
    data={"model": "m", "train.tsv": "t"},
    results=results,
    error=error,
    seconds=60.0,
    versions={"bert_tf": "1", "commit": "abc", "tensorflow": "2"},
    machine="a machine",
    commands=["bert-tf classifier"],
  )


ROWS = [
  *(make_row("RTE", s, eval_accuracy=0.6 + s / 1000) for s in (1, 2, 3)),
  *(make_row("MRPC", s, f1=0.889, eval_accuracy=0.85) for s in (1, 2)),
  make_row("MRPC", 1, "2e-5", f1=0.7, eval_accuracy=0.7),
  make_row("MRPC", 3, error="interrupted"),
  # The second seed predicts a constant.
  make_row("STS-B", 1, pearson=math.nan, spearman=0.85),
  make_row("STS-B", 2, pearson=math.nan, spearman=math.nan),
]


@pytest.mark.parametrize(
  ("values", "low", "high", "verdict"),
  [
    ([80, 81, 82], 83, 83, report.WITHIN),  # 81 +- 2
    ([80, 81, 82], 83.1, 83.1, report.BELOW),
    ([80, 81, 82], 79, 79, report.WITHIN),
    ([80, 81, 82], 78.9, 78.9, report.ABOVE),
    ([81], 81.5, 81.5, report.WITHIN),  # One seed: 0.5 points.
    ([81], 81.6, 81.6, report.BELOW),
    ([81, 81.1], 80, 80.5, report.ABOVE),
    ([81, 81.1], 80, 90, report.WITHIN),
    ([80, 81, math.nan], 81, 81, report.UNDEFINED),
  ],
)
def test_the_spread_decides_the_verdict(values, low, high, verdict):
  target = targets.Target(BASE, "RTE", "x", low, high, targets.DEV, "paper")
  assert report.compare(values, target) == verdict


def test_the_settings_with_most_seeds_and_the_best_mean_are_chosen():
  better = make_row("MRPC", 1, "3e-5", f1=0.99)
  best = report.choose_best([*ROWS, better])[BASE, "MRPC"]
  assert best.same[0].config["learning_rate"] == "5e-5"
  both = [better, make_row("MRPC", 2, "3e-5", f1=0.99)]
  best = report.choose_best([*ROWS, *both])[BASE, "MRPC"]
  assert best.same[0].config["learning_rate"] == "3e-5"


def test_a_report_has_results_undefined_ones_and_open_targets(tmp_path):
  config = config_lib.ReproductionConfig(
    output_dir=str(tmp_path), report_only=True
  )
  for number, row in enumerate(ROWS):
    rows.write(f"{config.rows}/{number}.json", row)
  report.write(config)
  text = (tmp_path / report.FILE).read_text()
  for value in ("60.2 ± 0.1", "1 of 2 seeds undefined", report.NO_RUN):
    assert value in text
  assert (tmp_path / report.PLOT).stat().st_size > 10000


def test_models_and_results_of_targets_are_known():
  names = {source.name for source in download.list_sources()}
  assert {target.model for target in targets.TARGETS} <= names
  for target in targets.TARGETS:
    assert target.result in report.RESULTS
    assert 0 <= target.low <= target.high <= 100


def test_dev_figures_of_the_paper_are_those_of_the_ablations():
  base = papers.OBJECTIVES.numbers["masked LM and NSP"]
  for column, task, result in (
    ("MNLI-m", "MNLI", "eval_accuracy"),
    ("QNLI", "QNLI", "eval_accuracy"),
    ("SST-2", "SST-2", "eval_accuracy"),
    ("SQuAD", "SQuAD-1.1", "f1"),
  ):
    key = BASE, task, result, targets.DEV
    [target] = [
      t
      for t in targets.TARGETS
      if (t.model, t.task, t.result, t.split) == key
      and t.low == t.high == base[column]
    ]
    assert target.source
