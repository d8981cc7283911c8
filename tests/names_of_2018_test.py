"""A page of docs/ maps the names of the original to existing names."""

import functools
import importlib
import pathlib
import re

import pytest

from bert_tf import modeling, optimization

TESTS = pathlib.Path(__file__).resolve().parent
[PAGE] = [
  text
  for path in (TESTS.parent / "docs").glob("*.md")
  if "\n### optimization\n" in (text := path.read_text())
]
# From the last commit of google-research/bert: modules, their functions and
# classes, and the methods of BertModel.
NAMES = (TESTS / "names_of_2018.txt").read_text().split()


def read_rows():
  """Yields old and new name of each row; a row may have several old names."""
  module = ""
  for line in PAGE.splitlines():
    if line.startswith("#"):
      module = line.removeprefix("### ")
    match = re.match(r"\| ((?:`[\w.]+`(?:, )?)+) \| `([\w.]+)` \|", line)
    for old in re.findall(r"`([\w.]+)`", match[1]) if match else ():
      yield f"{module}.{old}", match[2]


def test_each_name_of_the_original_has_one_row_or_its_old_place():
  rows = [old for old, _ in read_rows()]
  assert len(rows) == len(set(rows)) and set(rows) <= set(NAMES)
  for name in set(NAMES) - set(rows):
    module, name = name.split(".", 1)
    assert hasattr(importlib.import_module(f"bert_tf.{module}"), name), name


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


@pytest.mark.parametrize(
  ("call", "error"),
  [
    (lambda: modeling.get_assignment_map_from_checkpoint, AttributeError),
    (lambda: modeling.BertModel(None, is_training=True), TypeError),
    (lambda: optimization.create_optimizer(0.7, 1e-4, 9, 1, False), TypeError),
  ],
)
def test_calls_of_the_original_name_the_page(call, error):
  with pytest.raises(error, match="docs/old_names.md"):
    call()
