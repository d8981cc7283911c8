"""Marks slow tests and runs the slowest files first, as recorded.

A test is slow if its call took at least SLOW_S seconds when durations.json was
written, which `pytest --record-durations` does. A new test is not slow until
then. Tests whose fixture takes long, not their call, are marked in their file.

If a process starts a slow file last, it still works when the other processes
are idle. All workers of pytest-xdist need the same order.
"""

import collections
import json

import pytest

from tests.support import checkout

FILE = checkout.ROOT / "tests" / "support" / "durations.json"
SLOW_S = 3


class Durations:
  """A plugin that marks and orders tests and records their durations."""

  def __init__(self, config):
    self._config = config
    # Seconds of set-up, call and tear-down by file, and of the call by test.
    self._files = collections.Counter()
    self._calls = {}

  @pytest.hookimpl(tryfirst=True)
  def pytest_collection_modifyitems(self, items):
    """Marks slow tests; puts the slowest files first."""
    recorded = json.loads(FILE.read_text())
    slow_tests = set(recorded["slow_tests"])
    for item in items:
      if item.nodeid in slow_tests:
        item.add_marker("slow")
    seconds = recorded["files"]
    items.sort(key=lambda item: -seconds.get(get_file(item.nodeid), 0))

  def pytest_runtest_logreport(self, report):
    """Adds the seconds of a test's set-up, call or tear-down."""
    self._files[get_file(report.nodeid)] += report.duration
    if report.when == "call":
      self._calls[report.nodeid] = report.duration

  def pytest_sessionfinish(self):
    """Writes the durations of this run, once for all workers."""
    is_worker = hasattr(self._config, "workerinput")
    if not is_worker and self._config.getoption("record_durations"):
      record(self._files, self._calls)


def get_file(nodeid):
  return nodeid.split("::")[0]


def record(files, calls):
  """Writes FILE: files of at least a second, the slowest first; slow tests.

  Files and tests that have not run keep their entry as long as they exist.

  Args:
    files: seconds by file.
    calls: seconds of calls by test.
  """
  before = json.loads(FILE.read_text())
  rounded = {f: round(s) for f, s in {**before["files"], **files}.items()}
  kept = [test for test in before["slow_tests"] if test not in calls]
  slow_tests = {test for test, seconds in calls.items() if seconds >= SLOW_S}
  exists = lambda name: (checkout.ROOT / get_file(name)).is_file()  # noqa: E731
  content = {
    "files": {
      file: seconds
      for file, seconds in sorted(rounded.items(), key=lambda x: (-x[1], x[0]))
      if seconds and exists(file)
    },
    "slow_tests": sorted(filter(exists, slow_tests.union(kept))),
  }
  FILE.write_text(json.dumps(content, indent=2) + "\n")
