"""The rows that are committed, and what is written of them."""

import pathlib
import re

import pytest

from bert_tf.corpora import text_config
from bert_tf.plots import reference_curves
from research.ablations import (
  config,
  experiments,
  rows,
  scales,
  text,
)

FOLDER = (
  pathlib.Path(__file__).resolve().parents[3] / "research" / "reproduction"
)
TINY = scales.SCALES["tiny"]


def planned():
  """The keys of all runs of the scale tiny, of the tasks in ../shared."""
  tasks = [f.task for f in TINY.fine_tunings]
  found = experiments.build((), TINY, tasks)
  return {rows.run_key(run) for e in found for run in e.runs(TINY.seeds)}


def test_committed_rows_are_whole_runs_of_the_experiments():
  known = planned()
  for row in rows.read_all(str(FOLDER / "rows")):
    assert row.is_finished and row.key in known, row.config


@pytest.mark.slow
def test_another_machine_makes_the_data_of_the_rows(unpacked, tmp_path):
  """Else none of the rows would be taken for done there."""
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
  for row in rows.read_all(str(FOLDER / "rows")):
    assert made.hashes.items() <= row.data.items()


def test_the_summary_says_of_how_many_runs_it_is():
  found = rows.read_all(str(FOLDER / "rows"))
  text = (FOLDER / "README.md").read_text()
  (numbers,) = re.findall(r"(\d+) of (\d+) runs of the scale", text)
  assert tuple(map(int, numbers)) == (len(found), len(planned()))


def test_the_package_has_the_curves_of_the_documentation():
  committed = {
    path.name: path.read_text() for path in (FOLDER / "curves").glob("*.csv")
  }
  packaged = pathlib.Path(reference_curves.FOLDER).glob("*.csv")
  assert {path.name: path.read_text() for path in packaged} == committed
