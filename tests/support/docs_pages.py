"""Checks of documentation pages."""

import ast
import re

from tests.support import command_flags


def check_links(page, text):
  """Asserts that links of a page lead to existing files and headings."""
  for target in re.findall(r"\]\(([^)]+)\)", text):
    if "://" in target:
      continue
    path, _, anchor = target.partition("#")
    linked = (page.parent / path) if path else page
    assert linked.exists(), f"{page.name}: {target}"
    if anchor:
      headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
      slugs = {
        re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings
      }
      assert anchor in slugs, f"{page.name}: {target}"


def module_of_script(path):
  """Returns the module that a script runs, from its docstring."""
  docstring = ast.get_docstring(ast.parse(path.read_text()))
  return re.match(r"Runs ([\w.]+\w)", docstring)[1]


def flag_names(module, *arguments):
  """Returns the names of a command's flags, with `noNAME` of booleans."""
  names = command_flags.defined(module, *arguments)
  return {*names, *(f"no{name}" for name in names)}
