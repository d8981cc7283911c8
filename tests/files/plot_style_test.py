"""Tests for the style of plots: legends, sizes and formats."""

import struct

import pytest

from bert_tf.files import plot_style

pytest.importorskip("matplotlib", reason="pip install 'bert_tf[plots]'")


@pytest.mark.parametrize(
  "width, size",
  [(600, (600, 1080)), (1000, (1000, 720)), (1200, (1200, 360))],
)
def test_panels_are_side_by_side_if_there_is_room(tmp_path, width, size):
  path = tmp_path / "plot.png"
  with plot_style.open_picture(str(path), 3, width) as panels:
    assert len(panels) == 3
  assert struct.unpack(">II", path.read_bytes()[16:24]) == size


@pytest.mark.parametrize("name", ["plot.xyz", "plot"])
def test_the_error_for_another_suffix_names_the_formats(tmp_path, name):
  with pytest.raises(ValueError, match="png"):
    with plot_style.open_picture(str(tmp_path / name)):
      pass
  assert not list(tmp_path.iterdir())


def test_equal_plots_give_equal_files_whatever_the_users_settings(tmp_path):
  import matplotlib

  paths = [tmp_path / "one.svg", tmp_path / "two.SVG"]
  for path, font_size in zip(paths, (10, 30)):
    with matplotlib.rc_context({"font.size": font_size}):
      with plot_style.open_picture(str(path)) as (axis,):
        plot_style.draw_line(axis, [0, 1], [0, 1], "loss")
      assert matplotlib.rcParams["font.size"] == font_size
  assert b"<svg" in paths[0].read_bytes() == paths[1].read_bytes()


def test_lines_are_named_in_a_legend_unless_the_title_says_it(tmp_path):
  path = str(tmp_path / "plot.png")
  with plot_style.open_picture(path, 2) as (single, several):
    single.set(title="loss")
    plot_style.draw_line(single, [0, 1], [0, 1], "loss")
    plot_style.draw_line(single, [0, 1], [0, 1], "", are_rare=True)
    colors = {
      plot_style.draw_line(several, [0, 1], [0, 1], name) for name in "ab"
    }
  assert single.get_legend() is None
  assert [t.get_text() for t in several.get_legend().texts] == ["a", "b"]
  assert len(colors) == 2
