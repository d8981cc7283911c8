"""docs/old_flags.md lists all flags with their true defaults."""

import pathlib
import re
from typing import NamedTuple

import pytest

from tests.support import command_flags

TESTS = pathlib.Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "old_flags.md"
TRAINING = ("run_pretraining", "run_classifier", "run_squad")
TPU = "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores".split()


class Mention(NamedTuple):
  """A flag in a list of the page."""

  name: str
  default: str | None  # None if the page gives no default.
  lead: str  # The words at the beginning of the list item.


def read_record():
  """Returns type and default of the release's flags, by script and name."""
  flags = {}
  for line in (TESTS / "flags_of_2019.txt").read_text().splitlines():
    script, name, kind, default = line.split()
    flags.setdefault(script, {})[name] = (kind, default)
  return flags


RECORD = read_record()


def read_section(script):
  """Returns the text about a script's flags, shared flags included."""
  text = ""
  for section in PAGE.read_text().split("\n## ")[1:]:
    heading, content = section.split("\n", 1)
    is_shared = heading == "Scripts that train" and script in TRAINING
    if is_shared or heading == f"{script}.py":
      text += content
  return re.sub(r"\n  +", " ", text)


def read_mentions(script):
  """Returns the flags in the lists about a script."""
  mentions = []
  for item in re.findall("^- (.*)$", read_section(script), re.MULTILINE):
    lead = item.split("`")[0].lower()
    for flag in re.findall("`--(.*?)`", item):
      name, has_default, default = flag.partition("=")
      mentions.append(Mention(name, default if has_default else None, lead))
  return mentions


def read_changes(script):
  """Returns old and new default of the flags in the tables, by name."""
  rows = re.findall(
    r"^\| `--(\w+)` \| (.*) \| (.*) \|$", read_section(script), re.MULTILINE
  )
  return {name: (then, now) for name, then, now in rows}


def defined_default(script, name):
  """Returns the default of a defined flag, in the words of the record."""
  flag = command_flags.defined(script)[name]
  if flag.group == "Required":
    return "required"
  if flag.kind == "bool":
    # The default None is "None" for booleans and "" for other types.
    return {"None": "unset"}.get(flag.default, flag.default.capitalize())
  return flag.default or "unset"


def is_same(default, other):
  """Returns whether defaults are equal; compares numbers by value."""
  try:
    return float(default) == float(other)
  except ValueError:
    return default == other


def test_the_record_matches_the_description_of_the_release(shared):
  text = (shared / "behaviour.md").read_text()
  _, text = text.split("## Flags and defaults")
  text, _ = text.split("\n## ", 1)
  block = re.search(r"master \(string\)\nunset; (.*)\.", text)
  assert block and "num_tpu_cores (int) 8" in block[1]
  for script, flags in RECORD.items():
    line = re.search(rf"^\*\*{script}\*\*: (.*)\.$", text, re.MULTILINE)[1]
    described = {
      name: (kind, default.strip('"'))
      for name, kind, default in re.findall(r"(\w+) \((\w+)\) ([^;]+)", line)
    }
    has_block = script in TRAINING
    own = {n: f for n, f in flags.items() if not (has_block and n in TPU)}
    assert own == described, script


@pytest.mark.parametrize("script", RECORD)
def test_help_marks_the_flags_of_the_release(script):
  marked = command_flags.marked(script)
  # These are flags of other scripts of the release.
  shared = {"vocab_file", "masked_lm_prob", "do_whole_word_mask"}
  assert marked - shared <= RECORD[script].keys() <= marked


@pytest.mark.parametrize("script", RECORD)
def test_flags_of_the_release_are_listed_once(script):
  names = [m.name for m in read_mentions(script) if m.name in RECORD[script]]
  assert sorted([*names, *read_changes(script)]) == sorted(RECORD[script])


@pytest.mark.parametrize("script", RECORD)
def test_listed_defaults_are_those_of_the_release_and_of_today(script):
  for name, default, lead in read_mentions(script):
    if name not in RECORD[script]:
      continue
    then = RECORD[script][name][1]
    assert is_same(then, defined_default(script, name)), name
    if default is None:
      assert then in ("required", "unset"), name
      assert ("required" in lead) == (then == "required"), name
    else:
      assert then.lower() == default, name


@pytest.mark.parametrize("script", RECORD)
def test_changed_defaults_are_those_of_the_release_and_of_today(script):
  for name, (then, now) in read_changes(script).items():
    recorded_default = RECORD[script][name][1]
    assert then == recorded_default.lower()
    assert defined_default(script, name) == "unset" != recorded_default, name
    if recorded_default != "required":  # A saved run decides.
      assert "`run.json`" in now and then in now, name
      assert ("vocabulary" in now) == (name == "do_lower_case"), name


@pytest.mark.parametrize("script", RECORD)
def test_new_flags_are_listed_once(script):
  flags = command_flags.defined(script)
  new = {
    name
    for name, flag in flags.items()
    if flag.is_own and name not in RECORD[script]
  }
  mentions = read_mentions(script)
  listed = [m.name for m in mentions if m.name not in RECORD[script]]
  assert len(listed) == len(set(listed))
  missing, unknown = new - set(listed), set(listed) - new
  assert not missing | unknown, (
    f"docs/old_flags.md, {script}.py: add {missing}, remove {unknown}"
  )
  for mention in mentions:
    assert ("new" in mention.lead) == (mention.name in new), mention
