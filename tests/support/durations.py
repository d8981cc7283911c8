"""Marks slow tests and runs the slowest files first, as recorded.

A test is marked `slow` if its call took at least SLOW_S seconds when it was
recorded. A new test is not slow until then. Tests whose fixture takes long, not
their call, are marked in their file.

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
SLOW_S = 3
_KEY = "bert_tf/seconds_of_tests"


class Durations:
  """A plugin that marks and orders tests and records their durations."""

  def __init__(self, config):
    self._config = config
    self._is_worker = hasattr(config, "workerinput")
    if self._is_worker:  # All workers must use the same order.
      self._seconds = config.workerinput["seconds_of_tests"]
    elif hasattr(config, "cache"):
      self._seconds = config.cache.get(_KEY, {})
    else:  # With -p no:cacheprovider.
      self._seconds = {}
    # Seconds of set-up, call and tear-down, and of the call without them.
    self._new_seconds = collections.Counter()
    self._call_seconds = {}

  @pytest.hookimpl(optionalhook=True)
  def pytest_configure_node(self, node):
    """Sends the durations to a worker of pytest-xdist."""
    node.workerinput["seconds_of_tests"] = self._seconds

  @pytest.hookimpl(wrapper=True, tryfirst=True)
  def pytest_collection_modifyitems(self, items):
    """Marks slow tests; puts the slowest selected files first."""
    before = recorded()
    slow_tests = set(before["slow_tests"])
    for item in items:
      if item.nodeid in slow_tests:
        item.add_marker("slow")
    result = yield  # Selects tests, for example by -m "not slow".
    nodeids = {item.nodeid for item in items}
    seconds = file_seconds(nodeids, self._seconds, before["files"])
    items.sort(key=lambda item: -seconds[get_file(item.nodeid)])
    return result

  def pytest_runtest_logreport(self, report):
    """Adds the seconds of a test's set-up, call or tear-down."""
    self._new_seconds[report.nodeid] += report.duration
    if report.when == "call":
      self._call_seconds[report.nodeid] = report.duration

  def pytest_sessionfinish(self):
    """Writes the durations, once for all workers."""
    if self._is_worker or not hasattr(self._config, "cache"):
      return
    seconds = {**self._seconds, **self._new_seconds}
    seconds = {n: s for n, s in seconds.items() if exists(get_file(n))}
    self._config.cache.set(_KEY, seconds)
    if self._config.getoption("record_durations"):
      record(seconds, self._call_seconds)


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
  """Returns the seconds of `files` and the names of `slow_tests`."""
  return json.loads(FILE.read_text())


def record(seconds, call_seconds):
  """Writes files that take at least a second, the slowest first.

  Args:
    seconds: measured seconds of tests, by nodeid.
    call_seconds: those of the calls of this run.
  """
  before = recorded()
  totals = {**before["files"], **file_seconds(seconds, seconds, {})}
  rounded = {f: round(s) for f, s in totals.items() if exists(f) and round(s)}
  slow_tests = {n for n, s in call_seconds.items() if s >= SLOW_S}
  for name in before["slow_tests"]:
    if name not in call_seconds and exists(get_file(name)):
      slow_tests.add(name)
  files = sorted(rounded.items(), key=lambda pair: (-pair[1], pair[0]))
  content = {"files": dict(files), "slow_tests": sorted(slow_tests)}
  FILE.write_text(json.dumps(content, indent=2) + "\n")
