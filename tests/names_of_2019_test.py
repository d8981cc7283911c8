"""docs/old_names.md has every name, and leads somewhere."""

import functools
import importlib
import pathlib
import re

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
TABLE = TESTS.parent / "docs" / "old_names.md"
# Of google-research/bert at its last commit: modules, their functions and
# classes, and the methods of BertModel.
NAMES = (TESTS / "names_of_2019.txt").read_text().split()


def rows():
  """Yields what a name was, and what it is."""
  module = ""
  for line in TABLE.read_text().splitlines():
    if line.startswith("### "):
      module = line[4:]
    elif found := re.match(r"\| `([\w.]+)` \| `([\w.]+)` \|", line):
      yield f"{module}.{found[1]}", found[2]


def test_every_name_of_the_original_has_one_row():
  found = [name for name, _ in rows()]
  assert sorted(found) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted({now for _, now in rows()}))
def test_what_to_use_is_there(name):
  parts = name.split(".")
  for end in range(len(parts), 0, -1):
    try:
      module = importlib.import_module(".".join(parts[:end]))
    except ModuleNotFoundError:
      continue
    functools.reduce(getattr, parts[end:], module)
    return
  raise AssertionError(f"there is no {name}")


def test_every_row_is_read():
  _, names = TABLE.read_text().split("\n## Names of its modules\n")
  lines = names.splitlines()
  assert sum(line.startswith("| `") for line in lines) == len(list(rows()))
