"""Test files start in the order of their durations; slow tests are marked."""

import json
import os
import subprocess
import sys

from tests.support import checkout, durations

TESTS = """
import time

def test_first():
  time.sleep({0})

def test_second():
  pass
"""
CONFTEST = """
import os, pathlib, sys
sys.path.insert(0, {root!r})
from tests.support import checkout, durations
checkout.ROOT = pathlib.Path(__file__).parent
durations.FILE = checkout.ROOT / "durations.json"
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


def write_tests(folder, **recorded):
  """Writes a conftest.py and durations.json."""
  (folder / "conftest.py").write_text(CONFTEST.format(root=str(checkout.ROOT)))
  content = {"files": {}, "slow_tests": []} | recorded
  (folder / "durations.json").write_text(json.dumps(content))


def test_the_slowest_file_of_the_last_run_starts_first(tmp_path):
  write_tests(tmp_path, files={"b_test.py": 100})
  for name, seconds in (("a", 0), ("b", 0), ("c", 0.5)):
    (tmp_path / f"{name}_test.py").write_text(TESTS.format(seconds))
  (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = *_test.py\n")
  first = run(tmp_path, "--record-durations")
  # Without measurements, durations.json of this folder decides.
  assert first[0].startswith("b_test.py")
  second = run(tmp_path)
  assert second[:2] == ["c_test.py::test_first", "c_test.py::test_second"]
  # Measured durations have replaced the recorded ones.
  assert "100" not in (tmp_path / "durations.json").read_text()


def test_recorded_slow_tests_are_marked(tmp_path):
  names = ["a_test.py::test_first", "a_test.py::test_second"]
  write_tests(tmp_path, slow_tests=[names[1], "gone_test.py::test_first"])
  (tmp_path / "a_test.py").write_text(TESTS.format(0.5))
  with (tmp_path / "conftest.py").open("a") as file:
    file.write("durations.SLOW_S = 0.4\n")
  assert run(tmp_path, "-m", "not slow", "a_test.py") == names[:1]
  assert (
    run(tmp_path, "-m", "slow", "a_test.py", "-pno:cacheprovider")
    == (names[1:])
  )
  # The first test has become slow, the second has not run.
  run(tmp_path, "--record-durations", "-k", "first", "a_test.py")
  recorded = json.loads((tmp_path / "durations.json").read_text())
  assert recorded["slow_tests"] == names
  # Both have run.
  run(tmp_path, "--record-durations", "a_test.py")
  recorded = json.loads((tmp_path / "durations.json").read_text())
  assert recorded["slow_tests"] == names[:1]


def test_durations_of_selected_tests_are_summed():
  seconds = {"a.py::x": 1.0, "a.py::y": 2.0, "b.py::x": 9.0}
  chosen = ["a.py::x", "a.py::y", "c.py::x", "d.py::x"]
  totals = durations.file_seconds(chosen, seconds, {"c.py": 7, "a.py": 50})
  assert totals == {"a.py": 3.0, "c.py": 7, "d.py": 0}


def test_workers_of_the_test_script_keep_the_order():
  script = (checkout.ROOT / "run_scripts" / "test.sh").read_text()
  assert "--dist=loadfile --no-loadscope-reorder" in script
