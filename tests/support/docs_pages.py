"""Checks of documentation pages."""

import pathlib
import re
import shlex

from bert_tf.cli import main
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


def flag_names(command, *arguments):
  """Returns the names of a command's flags, with `noNAME` of booleans."""
  flags = command_flags.defined(command, *arguments)
  return {*flags, *(f"no{name}" for name in flags)}


def unknown_flags(words):
  """Returns the names of the flags that a command does not define."""
  if words[:2] == ["python", "run_scripts/sweep.py"]:
    # Its own options come before the command that it runs.
    command = next(i for i, word in enumerate(words) if word in main.COMMANDS)
    words = ["bert-tf", *words[command:]]
  program, *arguments = words
  if program == "bert-tf":
    name = arguments[0]
  elif program == "python" and arguments[0].startswith("run_scripts/"):
    name = pathlib.Path(arguments[0]).name
  else:
    return set()
  given = {word[2:].split("=")[0] for word in words if word.startswith("--")}
  is_pretraining = name in ("pretrain", "run_pretraining.py")
  is_from_text = is_pretraining and "text" in given
  return given - flag_names(name, *["--text=x"] * is_from_text)


def inline_commands(text):
  """Returns the words of the commands with flags within sentences."""
  text = re.sub("```.*?```", "", text, flags=re.DOTALL)
  spans = re.findall(r"`(bert-tf [\w-]+ [^`]*--[^`]*)`", text)
  return [shlex.split(span) for span in spans if "COMMAND" not in span]
