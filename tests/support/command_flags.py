"""The flags that a command defines, read from its --helpxml."""

import dataclasses
import functools
import pathlib
import subprocess
import sys
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
GROUPS = ("Required", "Optional, as in the original release", "Optional")


@dataclasses.dataclass(frozen=True)
class Flag:
  """A flag of --helpxml."""

  group: str
  kind: str
  default: str


@functools.cache
def defined(module: str, *arguments: str) -> dict[str, Flag]:
  """Returns the flags that a module's `run` defines, by name."""
  code = f"import {module} as command; command.run()"
  result = subprocess.run(
    [sys.executable, "-c", code, *arguments, "--helpxml"],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  texts = [
    {part.tag: part.text or "" for part in flag}
    for flag in ElementTree.fromstring(result.stdout).iter("flag")
  ]
  return {
    text["name"]: Flag(text["file"], text["type"], text["default"])
    for text in texts
  }
