"""Marks slow tests and runs the slowest files first, as recorded.

A test is slow if its call took at least SLOW_S seconds when durations.json was
written, which `pytest --record-durations` does in a run of all tests. A new
test is not slow until then. Tests whose fixture takes long, not their call, are
marked in their file.

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
    self._files = collections.Counter()  # Seconds by file.
    self._slow_tests = []

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
    if report.when == "call" and report.duration >= SLOW_S:
      self._slow_tests.append(report.nodeid)

  def pytest_sessionfinish(self):
    """Writes the durations of this run, once for all workers."""
    is_worker = hasattr(self._config, "workerinput")
    if is_worker or not self._config.getoption("record_durations"):
      return
    files = {f: round(s) for f, s in self._files.most_common() if round(s)}
    content = {"files": files, "slow_tests": sorted(self._slow_tests)}
    FILE.write_text(json.dumps(content, indent=2) + "\n")


def get_file(nodeid):
  return nodeid.split("::")[0]
