"""Run folders of an earlier version are resumed and served as before.

The version at commit 665eee0 wrote `tests/golden/run_folders/`, and the numbers
there are its results.
"""

import json
import shutil

import pytest

from tests.support import run_folders

EXPECTED = json.loads(run_folders.EXPECTED.read_text())
# Other processors round differently; a few steps of training enlarge that.
TOLERANCE = 1e-5
# Runs of a classifier that resume as the folder "classifier" does, with other
# labels or evaluations.
LIKE_CLASSIFIER = ("best", "multilabel", "pair_regression")
RUNS = [
  pytest.param(n, marks=[pytest.mark.slow] * (n in LIKE_CLASSIFIER))
  for n in run_folders.RUNS
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
  """The recorded folders and their data, to read only."""
  folder = tmp_path_factory.mktemp("recorded")
  run_folders.unpack(folder)
  return folder


@pytest.fixture
def copied(recorded, tmp_path):
  """A copy of the recorded folders that a command may change."""
  return shutil.copytree(recorded, tmp_path / "copied")


@pytest.fixture(scope="module")
def run(run_script):
  """A function that runs a command in a folder and asserts its success."""

  def run_successfully(command, folder):
    result = run_script(*command, cwd=folder)
    assert result.returncode == 0, result.stderr

  return run_successfully


def assert_equal(results, expected):
  differences = run_folders.differences(expected, results, TOLERANCE)
  assert not differences, "\n".join(differences[:20])


@pytest.mark.parametrize("name", run_folders.ROWS)
def test_a_recorded_folder_answers_as_before(recorded, name):
  answers = run_folders.answers(recorded / name, run_folders.ROWS[name])
  assert_equal(answers, EXPECTED["answers"][name])


@pytest.mark.parametrize("name", run_folders.EVALUATIONS)
def test_a_recorded_folder_is_evaluated_as_before(copied, run, name):
  results = run_folders.evaluate(run, copied, name)
  assert_equal(results, EXPECTED["evaluated"][name])


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_resumed_to_the_same_weights(copied, run, name):
  results = run_folders.resume(run, copied, name)
  assert_equal(results, EXPECTED["resumed"][name])
