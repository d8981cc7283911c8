"""Test files start in the order of their recorded durations."""

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


def test_the_slowest_file_of_the_last_run_starts_first(tmp_path):
  (tmp_path / "conftest.py").write_text(
    CONFTEST.format(root=str(checkout.ROOT))
  )
  (tmp_path / "durations.json").write_text('{"b_test.py": 100}')
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


def test_durations_of_selected_tests_are_summed():
  seconds = {"a.py::x": 1.0, "a.py::y": 2.0, "b.py::x": 9.0}
  chosen = ["a.py::x", "a.py::y", "c.py::x", "d.py::x"]
  totals = durations.file_seconds(chosen, seconds, {"c.py": 7, "a.py": 50})
  assert totals == {"a.py": 3.0, "c.py": 7, "d.py": 0}


def test_workers_of_the_test_script_keep_the_order():
  script = (checkout.ROOT / "run_scripts" / "test.sh").read_text()
  assert "--dist=loadfile --no-loadscope-reorder" in script
