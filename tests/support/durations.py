"""Runs the slowest test files first, by the durations of earlier runs.

If a process starts a slow file last, it still works when the other processes
are idle. Each run stores the durations of its tests in pytest's cache. Without
a cache, the committed durations.json decides. `pytest --record-durations`
writes it from the cache and the current run.
"""

import collections
import json

import pytest

from tests.support import checkout

FILE = checkout.ROOT / "tests" / "support" / "durations.json"
_KEY = "bert_tf/seconds_of_tests"


class LongestFirst:
  """A plugin that orders test files and records their durations."""

  def __init__(self, config):
    self._config = config
    self._is_worker = hasattr(config, "workerinput")
    if self._is_worker:  # All workers must use the same order.
      self._seconds = config.workerinput["seconds_of_tests"]
    else:
      self._seconds = config.cache.get(_KEY, {})
    self._new_seconds = collections.Counter()

  @pytest.hookimpl(optionalhook=True)
  def pytest_configure_node(self, node):
    """Sends the durations to a worker of pytest-xdist."""
    node.workerinput["seconds_of_tests"] = self._seconds

  def pytest_collection_modifyitems(self, items):
    """Puts the slowest files first and keeps the order within a file."""
    seconds = file_seconds({i.nodeid for i in items}, self._seconds, recorded())
    items.sort(key=lambda item: -seconds[get_file(item.nodeid)])

  def pytest_runtest_logreport(self, report):
    """Adds the seconds of a test's set-up, call or tear-down."""
    self._new_seconds[report.nodeid] += report.duration

  def pytest_sessionfinish(self):
    """Writes the durations, once for all workers."""
    if self._is_worker:
      return
    seconds = {**self._seconds, **self._new_seconds}
    seconds = {n: s for n, s in seconds.items() if exists(get_file(n))}
    self._config.cache.set(_KEY, seconds)
    if self._config.getoption("record_durations"):
      totals = {**recorded(), **file_seconds(seconds, seconds, {})}
      record({file: s for file, s in totals.items() if exists(file)})


def get_file(nodeid):
  return nodeid.split("::")[0]


def exists(file):
  return (checkout.ROOT / file).is_file()


def file_seconds(nodeids, seconds, fallback):
  """Returns the seconds of each file of the tests.

  Args:
    nodeids: the selected tests.
    seconds: measured seconds of tests, by nodeid.
    fallback: seconds of files without a measured test.
  """
  totals = collections.Counter()
  for nodeid in nodeids:
    totals[get_file(nodeid)] += seconds.get(nodeid, 0)
  return {f: total or fallback.get(f, 0) for f, total in totals.items()}


def recorded():
  return json.loads(FILE.read_text())


def record(totals):
  """Writes files that take at least a second, the slowest first."""
  rounded = {file: round(s) for file, s in totals.items() if round(s)}
  ordered = dict(sorted(rounded.items(), key=lambda pair: (-pair[1], pair[0])))
  FILE.write_text(json.dumps(ordered, indent=2) + "\n")
