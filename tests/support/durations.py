"""Runs the test files that take longest first, by times of earlier runs.

A process that begins a long file last works on when the others have nothing
left to do. Each run leaves the seconds of its tests in pytest's cache. On a
machine without them the committed durations.json serves, which
`pytest --record-durations` writes from the cache and the tests that ran.
"""

import collections
import json

import pytest

from tests.support import checkout

FILE = checkout.ROOT / "tests" / "support" / "durations.json"
_KEY = "bert_tf/seconds_of_tests"


class LongestFirst:
  """A plugin that orders test files and records how long their tests take."""

  def __init__(self, config):
    self._config = config
    self._is_worker = hasattr(config, "workerinput")
    if self._is_worker:  # All workers have to order the tests alike.
      self._seconds = config.workerinput["seconds_of_tests"]
    else:
      self._seconds = config.cache.get(_KEY, {})
    self._new_seconds = collections.Counter()

  @pytest.hookimpl(optionalhook=True)
  def pytest_configure_node(self, node):
    """Sends the times to a worker of pytest-xdist."""
    node.workerinput["seconds_of_tests"] = self._seconds

  def pytest_collection_modifyitems(self, items):
    """Puts the longest files first; their tests stay in their order."""
    seconds = file_seconds({i.nodeid for i in items}, self._seconds, recorded())
    items.sort(key=lambda item: -seconds[file_of(item.nodeid)])

  def pytest_runtest_logreport(self, report):
    """Adds up set-up, call and tear-down of a test."""
    self._new_seconds[report.nodeid] += report.duration

  def pytest_sessionfinish(self):
    """Writes the times, once for all workers."""
    if self._is_worker:
      return
    seconds = {**self._seconds, **self._new_seconds}
    seconds = {n: s for n, s in seconds.items() if is_there(file_of(n))}
    self._config.cache.set(_KEY, seconds)
    if self._config.getoption("record_durations"):
      totals = {**recorded(), **file_seconds(seconds, seconds, {})}
      record({file: s for file, s in totals.items() if is_there(file)})


def file_of(nodeid):
  return nodeid.split("::")[0]


def is_there(file):
  return (checkout.ROOT / file).is_file()


def file_seconds(nodeids, seconds, fallback):
  """Returns the seconds of each file of the tests.

  Args:
    nodeids: The tests that are chosen.
    seconds: Measured seconds of tests, by nodeid.
    fallback: Seconds of files, for those without a measured test.
  """
  totals = collections.Counter()
  for nodeid in nodeids:
    totals[file_of(nodeid)] += seconds.get(nodeid, 0)
  return {f: total or fallback.get(f, 0) for f, total in totals.items()}


def recorded():
  return json.loads(FILE.read_text())


def record(totals):
  """Writes the files that take a second or more, the longest first."""
  rounded = {file: round(s) for file, s in totals.items() if round(s)}
  ordered = dict(sorted(rounded.items(), key=lambda pair: (-pair[1], pair[0])))
  FILE.write_text(json.dumps(ordered, indent=2) + "\n")
