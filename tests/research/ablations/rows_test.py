"""Rows are written, read and found by run."""

import dataclasses
import json

from research import rows as shared_rows
from research.ablations import rows, runs, scales
from tests.support import ablation_rows

SMOKE = scales.SCALES["smoke"]
RUN = runs.Run(pretraining=SMOKE.base, seed=1)
DATA = {"train.txt": "t", "train": "files of the task"}


def other(**changes):
  changed = dataclasses.replace(SMOKE.base, **changes)
  return dataclasses.replace(RUN, pretraining=changed)


def test_a_row_is_identified_by_config_seed_and_data(tmp_path):
  folder = str(tmp_path)
  row = ablation_rows.row(RUN, 4.0)
  shared_rows.write(rows.row_path(folder, RUN, DATA), row)
  assert rows.read_finished(folder, RUN, DATA) == row
  assert (
    rows.read_finished(folder, dataclasses.replace(RUN, seed=2), DATA) is None
  )
  assert rows.read_finished(folder, other(num_train_steps=9), DATA) is None
  assert rows.read_finished(folder, RUN, {**DATA, "train.txt": "u"}) is None


def test_a_failed_row_is_not_finished(tmp_path):
  path = rows.row_path(str(tmp_path), RUN, DATA)
  shared_rows.write(path, ablation_rows.row(RUN, 0.0, error="ValueError: no"))
  assert rows.read_finished(str(tmp_path), RUN, DATA) is None
  assert [row.error for row in rows.read_all(str(tmp_path))] == [
    "ValueError: no"
  ]


def test_a_damaged_file_is_ignored(tmp_path):
  shared_rows.write(
    rows.row_path(str(tmp_path), RUN, DATA), ablation_rows.row(RUN, 1.0)
  )
  (tmp_path / "half.json").write_text('{"kind": ')
  (tmp_path / "other.json").write_text('{"kind": "pretraining"}')
  assert len(rows.read_all(str(tmp_path))) == 1


def test_each_list_of_a_curve_is_one_line(tmp_path):
  path = rows.row_path(str(tmp_path), RUN, DATA)
  shared_rows.write(path, ablation_rows.row(RUN, 1.0))
  with open(path) as file:
    lines = file.read().splitlines()
  assert '   "step": [1,10,100],' in lines
  assert json.loads("\n".join(lines))["curve"]["training"]["step"][2] == 100


def test_a_default_setting_does_not_change_the_run():
  assert "objective" not in RUN.config["pretraining"]
  assert other(objective="mlm") == RUN
  assert other(objective="ltr").name != RUN.name
  names = {
    run.name
    for run in (RUN, other(dropout=0.2), dataclasses.replace(RUN, seed=2))
  }
  assert len(names) == 3
