"""What a picture has, before it is a file."""

import contextlib

import pytest

from bert_tf.plots import style


@pytest.fixture
def panels(monkeypatch):
  """The panels of the pictures that are drawn."""
  seen = []
  picture = style.picture

  @contextlib.contextmanager
  def kept(*arguments):
    with picture(*arguments) as axes:
      seen.extend(axes)
      yield axes

  monkeypatch.setattr(style, "picture", kept)
  return seen


def line(axis, number):
  """Returns [xs, ys] of a line of a panel."""
  return [list(map(float, d)) for d in axis.get_lines()[number].get_data()]
