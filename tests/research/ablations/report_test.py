"""The report of synthetic rows."""

import pathlib
import re

import pytest

from research import rows
from research.ablations import config as config_lib
from research.ablations import experiments, plots, report, runs
from research.curves import reference_curves
from tests.support import ablation_rows


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
  scale = config.chosen_scale
  tasks = [f.task for f in scale.fine_tunings]
  values = {}
  for experiment in experiments.build(config.experiments, scale, tasks):
    for run in experiment.runs(scale.seeds):
      values.setdefault(run, 40 + len(values) // 10 + run.seed)
  for run, value in values.items():
    row = ablation_rows.row(run, float(value))
    path = rows.get_path(config.rows, run.name, row.data)
    rows.write(path, row)
  report.run(config)
  return folder


def test_the_report_has_our_table_and_the_published_one(folder):
  text = (folder / "report.md").read_text()
  section = text.split("## Objectives")[1].split("\n## ")[0]
  assert "### Here" in section
  assert "### Published: Table 5" in section
  assert (
    "| left to right, no NSP, BiLSTM | 82.1 | 84.1 | 75.7 | 91.6 | 84.9 |"
    in section
  )
  line = re.search(r"\| masked LM and NSP \| (.+?) \|", section)[1]
  assert re.fullmatch(r"\d\d\.\d ± \d\.\d", line)


def test_reference_curves_are_bands_over_the_seeds(folder):
  reference = reference_curves.read(str(folder / "curves" / "tiny.csv"))
  assert reference.seeds == [1, 2, 3]
  band = reference.bands["training", "masked_lm_loss"]
  assert list(band.word_pieces) == [100, 1000, 10000]
  # The loss at step 10 is 7 + seed.
  assert (band.low[1], band.mean[1], band.high[1]) == (8, 9, 10)


def test_defaults_of_references_are_those_of_pretrainings():
  for name, value in reference_curves.DEFAULTS.items():
    assert getattr(runs.Pretraining, name) == value


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
  committed = pathlib.Path(report.__file__).parent / "results"
  config = config_lib.AblationsConfig(
    output_dir=str(tmp_path), rows_dir=str(committed / "rows"), report_only=True
  )
  report.run(config)
  written = (tmp_path / report.FILE).read_text()
  assert written == (committed / report.FILE).read_text()


def test_a_report_without_rows_is_refused(tmp_path):
  config = config_lib.AblationsConfig(
    output_dir=str(tmp_path), scale="tiny", report_only=True
  )
  with pytest.raises(ValueError, match="`rows_dir`"):
    report.run(config)


def test_an_unknown_experiment_is_refused_with_the_known_ones():
  with pytest.raises(ValueError, match="sizess.*objectives"):
    experiments.build(("sizess",), config_lib.scales_lib.SCALES["tiny"], [])
