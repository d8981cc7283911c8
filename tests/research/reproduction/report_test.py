"""The report of synthetic rows."""

import dataclasses
import math
import pathlib

import pytest

from research import rows
from research.reproduction import config as config_lib
from research.reproduction import report, targets

FOLDER = pathlib.Path(report.__file__).parent
BASE, TINY = targets.BASE, "uncased_L-2_H-128_A-2"


def make_row(task, seed, rate="5e-5", model=BASE, error=None, **results):
  config = {
    "model": model,
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
  *(make_row("CoLA", seed, matthews_correlation=0.6) for seed in (1, 2)),
  *(make_row("RTE", s, eval_accuracy=0.6 + s / 1000) for s in (1, 2, 3)),
  # The README's 84 to 88 is dev, the paper's F1 88.9 is test.
  *(make_row("MRPC", s, f1=0.889, eval_accuracy=0.85) for s in (1, 2)),
  make_row("MRPC", 1, "2e-5", f1=0.7, eval_accuracy=0.7),
  make_row("MRPC", 1, model="mine", f1=0.8, eval_accuracy=0.75),
  make_row("MNLI", 1, model=TINY, eval_accuracy=0.7),
  make_row("SQuAD-1.1", 1, f1=88.6, exact_match=70.0),
  make_row("QQP", 1, error="exit status 1: out of memory"),
  # A failed run does not count in the time of the runs.
  make_row("MRPC", 3, error="interrupted"),
  # The second seed predicts a constant.
  make_row("STS-B", 1, pearson=math.nan, spearman=0.85),
  make_row("STS-B", 2, pearson=math.nan, spearman=math.nan),
  make_row("STS-B", 3, pearson=math.nan, spearman=0.86),
]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
  """Returns the lines of the report."""
  folder = tmp_path_factory.mktemp("report")
  config = config_lib.ReproductionConfig(
    output_dir=str(folder), report_only=True
  )
  for number, row in enumerate(ROWS):
    rows.write(f"{config.rows}/{number}.json", row)
  report.write(config)
  assert (folder / report.PLOT).stat().st_size > 10000
  return (folder / report.FILE).read_text().splitlines()


def cells(lines, model, task, result, source=""):
  """Returns the cells of a line in the table of a model."""
  start = max(i for i, x in enumerate(lines) if x.lstrip("#") == f" {model}")
  for line in lines[start + 1 :]:
    line_cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    if line.startswith("#"):
      break
    if line_cells[:2] == [task, result] and source in line:
      return line_cells
  raise AssertionError((task, result))


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


def test_dev_results_against_test_figures_are_marked(lines):
  line = cells(lines, BASE, "CoLA", "Matthews correlation")
  assert line[2] == "60.0 ± 0.0"
  assert line[5:8] == ["52.1", "test", "paper, table 1"]
  assert line[8] == "above, dev against a test target"
  rte = cells(lines, BASE, "RTE", "accuracy")
  assert rte[2] == "60.2 ± 0.1" and rte[8].startswith("below")


def test_undefined_results_are_counted_and_not_compared(lines):
  line = cells(lines, BASE, "STS-B", "Spearman correlation")
  assert line[2] == "85.5 ± 0.7, 1 of 3 seeds undefined"
  assert line[8].startswith("undefined")
  line = cells(lines, BASE, "STS-B", "Pearson correlation")
  assert line[2] == "undefined"


def test_settings_with_an_undefined_mean_are_chosen_last():
  undefined = [make_row("STS-B", s, spearman=math.nan) for s in (1, 2)]
  low = [make_row("STS-B", s, "2e-5", spearman=0.1) for s in (1, 2)]
  for all_rows in (undefined + low, low + undefined):
    best = report.choose_best(all_rows)[BASE, "STS-B"]
    assert best.same[0].config["learning_rate"] == "2e-5"


def test_rows_of_other_data_are_not_averaged():
  other = make_row("RTE", 4, eval_accuracy=0.9)
  other = dataclasses.replace(other, data={**other.data, "train.tsv": "u"})
  best = report.choose_best([*ROWS, other])[BASE, "RTE"]
  assert [row.seed for row in best.same] == [1, 2, 3]


def test_each_published_figure_has_a_line(lines):
  line = cells(lines, BASE, "MRPC", "accuracy", "README")
  assert line[5:] == ["84 to 88", "dev", "README", "within"]
  line = cells(lines, BASE, "MRPC", "accuracy", "table 5")
  assert line[5:] == ["86.7", "dev", "paper, table 5", "below"]
  line = cells(lines, BASE, "SQuAD-1.1", "F1")
  assert line[2] == "88.6 (one seed)" and line[8] == "within"
  assert line[3] == ""


@pytest.mark.parametrize(
  ("model", "task", "result", "published"),
  [
    (TINY, "MNLI", "accuracy, mismatched", "70.3"),
    (TINY, "MNLI", report.RESULTS[""], "21"),
    (targets.LARGE, "GLUE", "score", "80.5"),
    (targets.LARGE, "pre-training", "next-sentence accuracy", "97 to 98"),
    (targets.LARGE, "SQuAD-1.1", "F1, ensemble", "91.8"),
    (targets.MULTI_UNCASED, "XNLI-en", "accuracy, zero-shot in de", "70.5"),
  ],
)
def test_what_no_run_measures_stays_open(model, task, result, published, lines):
  line = cells(lines, model, task, result)
  assert line[2:6] == ["", "", "", published] and line[8] == report.NO_RUN


def test_the_settings_with_most_seeds_and_the_best_mean_are_chosen(lines):
  line = cells(lines, BASE, "MRPC", "F1")
  settings = "batch 32, 5e-5, 3 epochs, length 128, seeds 1, 2"
  assert line[2:5] == ["88.9 ± 0.0", "88.9 (seed 1)", settings]
  better = make_row("MRPC", 1, "3e-5", f1=0.99)
  best = report.choose_best([*ROWS, better])[BASE, "MRPC"]
  assert best.same[0].config["learning_rate"] == "5e-5"
  both = [better, make_row("MRPC", 2, "3e-5", f1=0.99)]
  best = report.choose_best([*ROWS, *both])[BASE, "MRPC"]
  assert best.same[0].config["learning_rate"] == "3e-5"


def test_runs_have_their_time_and_machine_and_errors(lines):
  text = "\n".join(lines)
  line = (
    f"| {BASE} | MRPC | 3 | 1.0 | a machine | bert_tf 1 (abc) on TensorFlow 2"
  )
  assert line in text
  assert "QQP, seed 1: `exit status 1: out of memory`" in text


def test_a_report_without_rows_is_refused(tmp_path):
  config = config_lib.ReproductionConfig(output_dir=str(tmp_path), model="m")
  with pytest.raises(ValueError, match="`rows_dir`"):
    report.write(config)


def test_the_committed_report_is_that_of_the_committed_rows(tmp_path):
  config = config_lib.ReproductionConfig(
    output_dir=str(tmp_path), rows_dir=str(FOLDER / "rows"), report_only=True
  )
  report.write(config)
  written = (tmp_path / report.FILE).read_text()
  assert written == (FOLDER / report.FILE).read_text()
  assert all(row.is_finished for row in rows.read_all(config.rows, report.Row))


def test_the_best_restart_is_that_of_the_metric_on_dev(lines):
  # The third seed has the best accuracy.
  assert cells(lines, BASE, "RTE", "accuracy")[3] == "60.3 (seed 3)"
  assert cells(lines, BASE, "STS-B", "Spearman correlation")[3] == (
    "86.0 (seed 3)"
  )


# Table 1 of Devlin et al. 2019, BERT-Base; QQP's accuracy, Pearson correlation
# and WNLI are made up.
TABLE_1 = {
  "MNLI": {"eval_accuracy": 0.846, "mm_eval_accuracy": 0.834},
  "QQP": {"f1": 0.712, "eval_accuracy": 0.892},
  "QNLI": {"eval_accuracy": 0.905},
  "SST-2": {"eval_accuracy": 0.935},
  "CoLA": {"matthews_correlation": 0.521},
  "STS-B": {"spearman": 0.858, "pearson": 0.866},
  "MRPC": {"f1": 0.889, "eval_accuracy": 0.849},
  "RTE": {"eval_accuracy": 0.664},
  "WNLI": {"eval_accuracy": 0.651},
}


def test_averages_of_glue_are_those_of_table_1_and_the_server():
  measured = [make_row(task, 1, **x) for task, x in TABLE_1.items()]
  best = report.choose_best(measured)
  # The average that the paper prints.
  assert round(report.average(best, BASE, "average")[1], 1) == 79.6
  # By hand: (84.0 + 80.2 + 90.5 + 93.5 + 52.1 + 86.2 + 86.9 + 66.4 + 65.1) / 9.
  assert report.average(best, BASE, "score")[1] == pytest.approx(704.9 / 9)
  without_wnli = report.choose_best(measured[:-1])
  assert report.average(without_wnli, BASE, "score") == {}
  other_seed = make_row("RTE", 2, eval_accuracy=0.7)
  best = report.choose_best([*measured[:7], other_seed, measured[8]])
  assert report.average(best, BASE, "average") == {}
