"""Appends all flags of the commands to the page cli.md; a hook of mkdocs."""

import functools
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

from bert_tf.cli import main

PAGE = "cli.md"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
  """Returns the page; cli.md with a table of flags for each command."""
  if page.file.src_uri != PAGE:
    return markdown
  sections = [section(name) for name in main.COMMANDS]
  return "\n\n".join([markdown.rstrip(), *sections]) + "\n"


@functools.cache
def section(name: str) -> str:
  """Returns a heading and a table with the flags of a command."""
  xml = subprocess.run(
    [sys.executable, "-m", "bert_tf", name, "--helpxml"],
    capture_output=True,
    text=True,
    check=False,  # absl ends with status 1 after its help.
  ).stdout
  rows = [f"### {name}", "", "| flag | default | meaning |", "|---|---|---|"]
  for flag in ElementTree.fromstring(xml).iter("flag"):
    texts = {part.tag: part.text or "" for part in flag}
    if texts["file"].startswith("absl."):
      continue
    required = texts["file"].startswith("Required")
    default = "required" if required else texts["default"]
    meaning = " ".join(texts["meaning"].split()).replace("|", r"\|")
    rows.append(f"| `--{texts['name']}` | {default} | {meaning} |")
  return "\n".join(rows)
