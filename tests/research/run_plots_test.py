"""Plots of repeated runs have a mean and a dot for each run."""

import math

import pytest

from bert_tf.plots import style
from research import run_plots

pytest.importorskip("matplotlib", reason="pip install 'bert_tf[plots]'")


def test_rows_have_a_mean_and_dots_or_are_marked_as_failed(tmp_path):
  values = {"best": [0.5, 0.75], "one": [0.25], "bad": [math.nan, math.nan]}
  with style.picture(str(tmp_path / "plot.png")) as (axis,):
    run_plots.rows(axis, values, {"best": 0.125, "one": math.nan})
  texts = [text.get_text() for text in axis.texts]
  assert texts == ["0.625", "0.25", "failed"]
  assert [t.get_text() for t in axis.get_yticklabels()] == list(values)
  lines = [list(map(float, line.get_xdata())) for line in axis.get_lines()]
  assert [x for x in lines if x] == [[0.625], [0.5, 0.75], [0.25], [0.25]]
  bar = axis.collections[0].get_segments()[0][:, 0]
  assert list(bar) == [0.5, 0.75]
  low, high = axis.get_ylim()
  assert low > high  # The first is at the top.
