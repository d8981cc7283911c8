"""Fixtures of the tests of training."""

import itertools

import pytest

from bert_tf.training import budget


@pytest.fixture
def clock(monkeypatch):
  """A clock that advances by one second at each reading."""
  monkeypatch.setattr(budget, "_now", itertools.count().__next__)
