"""Fixtures that the tests of advice share."""

import pytest

from tests.advice import following


@pytest.fixture(scope="session")
def models(tmp_path_factory):
  """Returns the folder of the models that cases share."""
  folder = tmp_path_factory.mktemp("models")
  following.write_models(folder)
  return folder
