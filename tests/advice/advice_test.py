"""Every message that gives advice has a case that follows it."""

import pathlib

import pytest

from tests.advice import (
  data_cases,
  following,
  model_cases,
  python_cases,
  settings_cases,
  training_cases,
)

GROUPS = (settings_cases, data_cases, training_cases, model_cases, python_cases)
CASES = [case for group in GROUPS for case in group.CASES]
HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  folder = tmp_path_factory.mktemp("models")
  following.write_models(folder)
  return folder


@pytest.mark.parametrize(
  "case",
  CASES,
  ids=[
    f"{case.where.replace(' ', '-')}-{number}"
    for number, case in enumerate(CASES)
  ],
)
def test_advice_helps(case, models, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  following.follow(case, following.World(tmp_path, models))
