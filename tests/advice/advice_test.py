"""Every message that gives advice has a case that follows it."""

import collections
import pathlib

import pytest

from tests.advice import (
  command_cases,
  data_cases,
  elsewhere,
  export_cases,
  fine_tuning_cases,
  following,
  messages,
  model_cases,
  python_cases,
  run_cases,
  settings_cases,
  text_cases,
  training_cases,
)

GROUPS = (
  settings_cases,
  data_cases,
  export_cases,
  text_cases,
  training_cases,
  model_cases,
  python_cases,
  run_cases,
  fine_tuning_cases,
)
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


def is_waiting(where):
  return where.startswith(messages.WAITING)


def test_every_message_with_advice_has_a_case():
  known = collections.Counter(
    [case.where for case in (*CASES, *command_cases.COMMANDS)]
    + [where for where, _ in elsewhere.ROWS]
  )
  missing = messages.with_advice() - known
  assert [where for where in missing if not is_waiting(where)] == []


def test_the_tests_elsewhere_exist():
  found = messages.with_advice()
  for where, test in elsewhere.ROWS:
    assert where in found
    if "::" in test:
      file, name = test.split("::")
      assert f"def {name}(" in (TESTS / file).read_text()
