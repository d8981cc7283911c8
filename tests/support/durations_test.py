"""Test files start in the order of their durations; slow tests are marked."""

import json
import os
import subprocess
import sys

from tests.support import checkout

TESTS = """
import time

def test_first():
  time.sleep({})

def test_second():
  pass
"""
CONFTEST = f"""
import pathlib, sys
sys.path.insert(0, {str(checkout.ROOT)!r})
from tests.support import checkout, durations
checkout.ROOT = pathlib.Path(__file__).parent
durations.FILE = checkout.ROOT / "durations.json"
durations.SLOW_S = 0.4
from tests.conftest import pytest_addoption, pytest_configure
"""


def run(folder, *arguments):
  """Returns the tests that pytest ran, in order."""
  result = subprocess.run(
    [sys.executable, "-m", "pytest", "-v", "--rootdir=.", *arguments],
    cwd=folder,
    capture_output=True,
    text=True,
    env={k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"},
  )
  assert result.returncode == 0, result.stdout + result.stderr
  lines = [line.split() for line in result.stdout.splitlines()]
  return [words[0] for words in lines if words[1:2] == ["PASSED"]]


def test_recorded_files_start_first_and_recorded_tests_are_slow(tmp_path):
  (tmp_path / "conftest.py").write_text(CONFTEST)
  (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = *_test.py\n")
  recorded = {
    "files": {"b_test.py": 100},
    "slow_tests": ["b_test.py::test_second"],
  }
  (tmp_path / "durations.json").write_text(json.dumps(recorded))
  for name, seconds in (("a", 0), ("b", 0), ("c", 0.5)):
    (tmp_path / f"{name}_test.py").write_text(TESTS.format(seconds))
  tests = {
    name: [f"{name}_test.py::test_{test}" for test in ("first", "second")]
    for name in "abc"
  }
  fast = run(tmp_path, "-m", "not slow", "--record-durations")
  assert fast == [tests["b"][0], *tests["a"], *tests["c"]]
  recorded = json.loads((tmp_path / "durations.json").read_text())
  # The test that has not run stays slow.
  assert recorded["slow_tests"] == [tests["b"][1], tests["c"][0]]
  assert run(tmp_path)[:2] == tests["c"]


def test_workers_of_the_test_script_keep_the_order():
  script = (checkout.ROOT / "run_scripts" / "test.sh").read_text()
  assert "--dist=loadfile --no-loadscope-reorder" in script
