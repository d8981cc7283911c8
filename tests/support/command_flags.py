"""The flags that a command defines, read from its --helpxml."""

import dataclasses
import functools
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

from tests.support import checkout


@dataclasses.dataclass(frozen=True)
class Flag:
  """A flag of --helpxml."""

  group: str
  kind: str
  default: str

  @property
  def is_own(self) -> bool:
    """Whether a command defines the flag, not absl."""
    return not self.group.startswith("absl.")


@functools.cache
def defined(program: str, *arguments: str) -> dict[str, Flag]:
  """Returns the flags that a command or a script, NAME.py, defines, by name."""
  output = _output(program, *arguments, "--helpxml")
  texts = [
    {part.tag: part.text or "" for part in flag}
    for flag in ElementTree.fromstring(output).iter("flag")
  ]
  return {
    text["name"]: Flag(text["file"], text["type"], text["default"])
    for text in texts
  }


@functools.cache
def marked(script: str) -> set[str]:
  """Returns the flags that --help=all marks as the original release's."""
  text = _output(script, "--help=all")
  return set(re.findall(r"^  --(?:\[no\])?(\w+)\S* \*", text, re.MULTILINE))


def _output(program: str, *arguments: str) -> str:
  return subprocess.run(
    [sys.executable, *checkout.program(program), *arguments],
    env={**os.environ, "PYTHONPATH": str(checkout.ROOT)},
    capture_output=True,
    text=True,
  ).stdout
