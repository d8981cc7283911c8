"""Tests for the style of plots: names of lines, sizes and formats."""

import math
import struct
from xml.etree import ElementTree

import pytest

from bert_tf.plots import style

pytest.importorskip("matplotlib", reason="pip install 'bert_tf[plots]'")


def read_size(path):
  return struct.unpack(">II", path.read_bytes()[16:24])


@pytest.mark.parametrize(
  "width, size",
  [(600, (600, 1080)), (1000, (1000, 720)), (1200, (1200, 360))],
)
def test_panels_are_side_by_side_if_there_is_room(tmp_path, width, size):
  path = tmp_path / "plot.png"
  with style.picture(str(path), 3, width) as panels:
    assert len(panels) == 3
  assert read_size(path) == size


def test_the_suffix_is_the_format_and_equal_plots_give_equal_files(tmp_path):
  paths = [tmp_path / "one.svg", tmp_path / "two.SVG"]
  for path in paths:
    with style.picture(str(path)) as (axis,):
      style.line(axis, [0, 1], [0, 1], "loss")
  root = ElementTree.fromstring(paths[0].read_text())
  assert root.tag == "{http://www.w3.org/2000/svg}svg"
  assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("name", ["plot.jpg", "plot", "plot.png.gz"])
def test_another_suffix_is_refused_before_anything_is_drawn(tmp_path, name):
  with pytest.raises(ValueError, match=rf"{name}.*\.png.*\.svg"):
    with style.picture(str(tmp_path / name)):
      pytest.fail("drawn")
  assert not list(tmp_path.iterdir())


def test_a_plot_that_fails_leaves_no_file(tmp_path):
  with pytest.raises(KeyError):
    with style.picture(str(tmp_path / "plot.png")):
      raise KeyError
  assert not list(tmp_path.iterdir())


def test_matplotlib_settings_of_the_user_are_kept_and_ignored(tmp_path):
  import matplotlib

  paths = [tmp_path / "one.svg", tmp_path / "two.svg"]
  for path, font_size in zip(paths, (10, 30)):
    with matplotlib.rc_context({"font.size": font_size}):
      with style.picture(str(path)) as (axis,):
        style.line(axis, [0, 1], [0, 1], "loss")
      assert matplotlib.rcParams["font.size"] == font_size
  assert paths[0].read_bytes() == paths[1].read_bytes()


def read_names(panel):
  """Returns (name, box in pixels, color) of each line's name."""
  panel.figure.draw_without_rendering()
  return [
    (t.get_text(), t.get_window_extent(), t.get_color()) for t in panel.texts
  ]


def test_names_are_at_the_ends_of_lines_and_do_not_overlap(tmp_path):
  ends = {"a": 1.0, "b": 1.01, "c": 1.02, "d": 5.0}
  with style.picture(str(tmp_path / "plot.png"), width=600) as (axis,):
    colors = {
      name: style.line(axis, [0, 1], [0, end], name)
      for name, end in ends.items()
    }
  drawn = sorted(read_names(axis), key=lambda name: name[1].y0)
  assert [name for name, _, _ in drawn] == list(ends)
  assert {name: color for name, _, color in drawn} == colors
  assert len(set(colors.values())) == 4
  for (_, lower, _), (_, upper, _) in zip(drawn, drawn[1:]):
    assert lower.y1 <= upper.y0
  area = axis.get_window_extent()
  for _, box, _ in drawn:
    assert area.x1 < box.x0 and box.x1 <= 600
  # A name that touches no other is exactly where its line ends.
  _, end = axis.transData.transform((1, 5.0))
  assert (drawn[3][1].y0 + drawn[3][1].y1) / 2 == pytest.approx(end, abs=2)


def test_a_line_named_as_the_title_has_no_label(tmp_path):
  with style.picture(str(tmp_path / "plot.png")) as (axis,):
    style.panel(axis, "loss", "step")
    style.line(axis, [0, 1], [0, 1], "loss")
    style.points(axis, [0, 1], [0, 1], "")
    style.line(axis, [0, 1], [math.nan, math.nan], "nothing")
  assert read_names(axis) == []


@pytest.mark.parametrize("count, marker", [(2, "o"), (30, "o"), (31, "")])
def test_lines_of_few_points_have_markers(tmp_path, count, marker):
  with style.picture(str(tmp_path / "plot.png")) as (axis,):
    style.line(axis, range(count), range(count), "loss")
  assert axis.get_lines()[0].get_marker().replace("None", "") == marker


@pytest.mark.parametrize(
  "value, text",
  [
    (0, "0"),
    (0.25, "0.25"),
    (1000, "1000"),
    (20000, "20k"),
    (1.5e6, "1.5M"),
    (5e-5, "5e-5"),
    (1e-4, "1e-4"),
    (-2.5e-7, "-2.5e-7"),
  ],
)
def test_numbers_are_short(value, text):
  assert style.format_number(value) == text


@pytest.mark.parametrize(
  "name, text",
  [
    ("masked_lm_loss", "masked-LM loss"),
    ("next_sentence_accuracy", "next-sentence accuracy"),
    ("eval_accuracy", "held-out accuracy"),
    ("macro_f1", "macro F1"),
    ("elmo", "elmo"),
  ],
)
def test_names_are_words(name, text):
  assert style.format_name(name) == text


def test_rows_have_a_mean_and_dots_or_are_marked_as_failed(tmp_path):
  values = {"best": [0.5, 0.75], "one": [0.25], "bad": [math.nan, math.nan]}
  with style.picture(str(tmp_path / "plot.png")) as (axis,):
    style.rows(axis, values, {"best": 0.125, "one": math.nan})
  texts = [text.get_text() for text in axis.texts]
  assert texts == ["0.625", "0.25", "failed"]
  assert [t.get_text() for t in axis.get_yticklabels()] == list(values)
  lines = [list(map(float, line.get_xdata())) for line in axis.get_lines()]
  assert lines == [[0.5, 0.75], [0.5, 0.75], [0.625], [0.25]]
  low, high = axis.get_ylim()
  assert low > high  # The first is at the top.


def test_bars_start_at_zero_and_show_their_value(tmp_path):
  with style.picture(str(tmp_path / "plot.png")) as (axis,):
    style.bars(axis, {"ours": 12.5, "peer": 50.0}, {"ours": [12, 13]}, ["ours"])
  bars = [(bar.get_x(), bar.get_width()) for bar in axis.patches]
  assert bars == [(0, 12.5), (0, 50.0)]
  assert [text.get_text() for text in axis.texts] == ["12.5", "50"]
  assert axis.get_xlim()[0] == 0
  ours, peer = (bar.get_facecolor()[:3] for bar in axis.patches)
  assert ours != peer


def test_large_values_of_bars_have_no_exponent(tmp_path):
  with style.picture(str(tmp_path / "plot.png")) as (axis,):
    style.bars(axis, {"slow": 10132.8, "fast": 999.4})
  assert [text.get_text() for text in axis.texts] == ["10,133", "999.4"]
