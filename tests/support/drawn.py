"""Contents of a picture before it is written."""

import contextlib

import pytest

from bert_tf.files import plot_style


@pytest.fixture
def panels(monkeypatch):
  """Returns a list that receives the panels of all pictures drawn later."""
  seen = []
  picture = plot_style.open_picture

  @contextlib.contextmanager
  def recorded(*arguments):
    with picture(*arguments) as axes:
      seen.extend(axes)
      yield axes

  monkeypatch.setattr(plot_style, "open_picture", recorded)
  return seen


def line(axis, number):
  """Returns [xs, ys] of a line of a panel."""
  return [list(map(float, d)) for d in axis.get_lines()[number].get_data()]
