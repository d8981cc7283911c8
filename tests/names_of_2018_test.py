"""A page of docs/ maps all names of the original to existing names."""

import functools
import importlib
import pathlib
import re

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
[PAGE] = [
  text
  for path in (TESTS.parent / "docs").glob("*.md")
  if "\n### optimization\n" in (text := path.read_text())
]
# From the last commit of google-research/bert: modules, their functions and
# classes, and the methods of BertModel.
NAMES = (TESTS / "names_of_2018.txt").read_text().split()
MODULES = {name.split(".")[0] for name in NAMES}


def read_lines():
  """Yields the lines of the page that are about a module, with its name."""
  module = ""
  for line in PAGE.splitlines():
    if line.startswith("#"):
      module = line.removeprefix("### ")
    elif module in MODULES:
      yield module, line


def read_rows():
  """Yields old and new name of each row."""
  for module, line in read_lines():
    if match := re.match(r"\| `([\w.]+)` \| `([\w.]+)` \|", line):
      yield f"{module}.{match[1]}", match[2]


def test_each_name_of_the_original_has_one_row():
  assert sorted(old for old, _ in read_rows()) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted({new for _, new in read_rows()}))
def test_new_names_exist(name):
  parts = name.split(".")
  for end in range(len(parts), 0, -1):
    try:
      module = importlib.import_module(".".join(parts[:end]))
    except ModuleNotFoundError:
      continue
    functools.reduce(getattr, parts[end:], module)
    return
  raise AssertionError(f"there is no {name}")


def test_all_rows_are_parsed():
  rows = [line for _, line in read_lines() if line.startswith("| `")]
  assert len(rows) == len(list(read_rows()))
