"""Committed rows, and the pages about them."""

import pathlib
import re

import pytest

from bert_tf.text import text_config
from research import rows
from research.ablations import config, experiments, runs, scales, text
from research.curves import reference_curves

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "research" / "ablations" / "results"
TINY = scales.SCALES["tiny"]


def plan_keys():
  """Returns the keys of all runs at the scale tiny."""
  tasks = [f.task for f in TINY.fine_tunings]
  plan = experiments.build((), TINY, tasks)
  return {runs.key(run) for e in plan for run in e.runs(TINY.seeds)}


def test_committed_rows_are_whole_runs_of_the_experiments():
  known = plan_keys()
  for row in rows.read_all(str(FOLDER / "rows"), runs.Row):
    assert row.is_finished and runs.key(row) in known, row.config


def test_another_machine_makes_the_data_of_the_rows(unpacked, tmp_path):
  """Otherwise, it would execute all runs again."""
  corpora = unpacked("corpora")
  page = (FOLDER / "README.md").read_text()
  [(names, input_format)] = re.findall(
    r"--text=(\S+) --input_format=(\S+)", page
  )
  made = text.Text(
    config.AblationsConfig(
      output_dir=str(tmp_path),
      text=",".join(f"{corpora}/{name}" for name in names.split(",")),
      reading=text_config.TextConfig(input_format=input_format),
    ),
    str(tmp_path),
  )
  for row in rows.read_all(str(FOLDER / "rows"), runs.Row):
    assert made.hashes.items() <= row.data.items()


@pytest.mark.parametrize(
  "page",
  [FOLDER / "README.md", ROOT / "docs" / "results.md"],
  ids=["research", "docs"],
)
def test_the_summaries_count_the_committed_rows(page):
  committed = rows.read_all(str(FOLDER / "rows"), runs.Row)
  (numbers,) = re.findall(r"(\d+) of (\d+) runs of the", page.read_text())
  assert tuple(map(int, numbers)) == (len(committed), len(plan_keys()))


def test_the_committed_curves_are_the_references_of_the_command():
  references = reference_curves.read_all(reference_curves.FOLDER)
  assert [r.name for r in references] == ["mini", "small", "tiny"]
  for reference in references:
    assert {part for part, _ in reference.bands} == set(reference_curves.PARTS)
