"""Every message that gives advice has a case that follows it."""

import collections
import pathlib

import pytest

from tests.advice import (
  client_cases,
  command_cases,
  data_cases,
  elsewhere,
  example_cases,
  export_cases,
  fine_tuning_cases,
  following,
  messages,
  model_cases,
  python_cases,
  run_cases,
  server_cases,
  settings_cases,
  start_cases,
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
  start_cases,
  example_cases,
  server_cases,
  client_cases,
)
CASES = [case for group in GROUPS for case in group.CASES]
HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent


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


def test_every_message_with_advice_has_a_case():
  known = collections.Counter(
    [case.where for case in (*CASES, *command_cases.COMMANDS)]
    + [where for where, _ in elsewhere.ROWS]
  )
  assert messages.with_advice() - known == {}


def test_tests_of_messages_elsewhere_exist():
  messages_by_function = messages.with_advice()
  for where, test in elsewhere.ROWS:
    assert where in messages_by_function
    if "::" in test:
      file, name = test.split("::")
      assert f"def {name}(" in (TESTS / file).read_text()
