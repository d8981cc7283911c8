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
  commands = [*main.COMMANDS]
  commands.insert(commands.index("pretrain") + 1, "pretrain --text")
  sections = [section(command) for command in commands]
  return "\n\n".join([markdown.rstrip(), *sections]) + "\n"


@functools.cache
def section(command: str) -> str:
  """Returns a heading and a table with the flags of a command."""
  words = command.replace("--text", "--text=").split()
  xml = subprocess.run(
    [sys.executable, "-m", "bert_tf", *words, "--helpxml"],
    capture_output=True,
    text=True,
    check=False,  # absl ends with status 1 after its help.
  ).stdout
  rows = []
  for flag in ElementTree.fromstring(xml).iter("flag"):
    texts = {part.tag: part.text or "" for part in flag}
    if texts["file"].startswith("absl."):
      continue
    required = texts["file"].startswith("Required")
    default = "required" if required else texts["default"]
    meaning = " ".join(texts["meaning"].split()).replace("|", r"\|")
    rows.append(f"| `--{texts['name']}` | {default} | {meaning} |")
  head = [f"### {command}", "", "| flag | default | meaning |", "|---|---|---|"]
  return "\n".join([*head, *sorted(rows)])
