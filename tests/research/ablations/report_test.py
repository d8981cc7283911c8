"""Reports of synthetic rows and of the committed ones."""

import pathlib
import re

import pytest

from research import rows
from research.ablations import config as config_lib
from research.ablations import experiments, plots, report, runs, scales
from research.curves import reference_curves
from tests.support import ablation_rows

COMMITTED = pathlib.Path(report.__file__).parent / "results"
TINY = scales.SCALES["tiny"]
TASKS = [f.task for f in TINY.fine_tunings]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Returns a report of synthetic rows; each result contains its seed."""
  folder = tmp_path_factory.mktemp("report")
  config = config_lib.AblationsConfig(
    output_dir=str(folder),
    scale="tiny",
    report_only=True,
    experiments=("objectives", "steps", "curves"),
  )
  values = {}
  for experiment in experiments.build(config.experiments, TINY, TASKS):
    for run in experiment.runs(TINY.seeds):
      values.setdefault(run, 40 + len(values) // 10 + run.seed)
  for run, value in values.items():
    row = ablation_rows.row(run, float(value))
    rows.write(rows.get_path(config.rows, run.name, row.data), row)
  report.run(config)
  return folder


def test_reference_curves_are_bands_over_the_seeds(folder):
  reference = reference_curves.read(str(folder / "curves" / "tiny.csv"))
  assert reference.seeds == [1, 2, 3]
  band = reference.bands["training", "masked_lm_loss"]
  assert list(band.word_pieces) == [100, 1000, 10000]
  # The loss at step 10 is 7 + seed.
  assert (band.low[1], band.mean[1], band.high[1]) == (8, 9, 10)


def test_each_plot_is_drawn(folder):
  text = (folder / "report.md").read_text()
  named = re.findall(r"!\[.*\]\((.*)\)", text)
  # Results, curves by steps, and curves by word pieces, for 3 experiments.
  assert len(named) == len(set(named)) == 9
  for name in named:
    assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_the_committed_report_is_that_of_the_committed_rows(
  tmp_path, monkeypatch
):
  for name in ("draw_results", "draw_steps", "draw_curves"):
    monkeypatch.setattr(plots, name, lambda *_: None)
  config = config_lib.AblationsConfig(
    output_dir=str(tmp_path), rows_dir=str(COMMITTED / "rows"), report_only=True
  )
  report.run(config)
  written = (tmp_path / report.FILE).read_text()
  assert written == (COMMITTED / report.FILE).read_text()


def test_committed_rows_are_whole_runs_of_the_experiments():
  plan = experiments.build((), TINY, TASKS)
  known = {runs.key(run) for e in plan for run in e.runs(TINY.seeds)}
  for row in rows.read_all(str(COMMITTED / "rows"), runs.Row):
    assert row.is_finished and runs.key(row) in known, row.config
