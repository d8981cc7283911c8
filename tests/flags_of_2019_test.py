"""docs/coming_from_2019.md says of every flag what the scripts define."""

import pathlib
import re

import pytest

from tests.support import command_flags

TESTS = pathlib.Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "coming_from_2019.md"
# The settings that a run keeps are None until it is known which run it is.
FROM_RUN = "what the model's `run.json` says, else "
FROM_VOCABULARY = "what the vocabulary shows, else "
TRAINING = ("run_pretraining", "run_classifier", "run_squad")
TPU = "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores".split()


def recorded():
  """Returns type and default of the release's flags, by script and name."""
  found = {}
  for line in (TESTS / "flags_of_2019.txt").read_text().splitlines():
    script, name, kind, default = line.split()
    found.setdefault(script, {})[name] = (kind, default)
  return found


THEN = recorded()


def sections():
  """Returns the parts of the page about flags, by heading."""
  flags = PAGE.read_text().split("\n## Flags\n")[1].split("\n## ")[0]
  return dict(part.split("\n", 1) for part in flags.split("\n### ")[1:])


def of_script(script):
  """Returns what the page says of a script's flags."""
  found = sections()
  shared = found["Scripts that train"] if script in TRAINING else ""
  return f"{found[f'{script}.py']}\n{shared}"


def listed(script, beginning):
  """Returns the flags, with =DEFAULT, of list items that begin so."""
  text = re.sub(r"\n  +", " ", of_script(script))
  items = re.findall(rf"^- {beginning}.*?: (.*)$", text, re.MULTILINE)
  return [flag for item in items for flag in re.findall("`--(.*?)`", item)]


def changed(script):
  """Returns then and now of the flags in the tables, by name."""
  rows = re.findall(
    r"^\| `--(\w+)` \| (.*) \| (.*) \|$", of_script(script), re.MULTILINE
  )
  return {name: (then, now) for name, then, now in rows}


def now(script, name):
  """Returns the default of a flag that is defined, in the record's words."""
  flag = command_flags.defined(f"bert_tf.cli.{script}")[name]
  if flag.group == "Required":
    return "required"
  if flag.kind == "bool":
    # Of a boolean None is "None" and of other kinds nothing.
    return {"None": "unset"}.get(flag.default, flag.default.capitalize())
  return flag.default or "unset"


def same(then, default):
  """Returns whether defaults are equal, numbers by value."""
  try:
    return float(then) == float(default)
  except ValueError:
    return then == default


def test_the_record_is_the_description_of_the_release(shared):
  text = (shared / "behaviour.md").read_text()
  _, text = text.split("## Flags and defaults")
  text, _ = text.split("\n## ", 1)
  block = re.search(r"master \(string\)\nunset; (.*)\.", text)
  assert block and "num_tpu_cores (int) 8" in block[1]
  for script, flags in THEN.items():
    line = re.search(rf"^\*\*{script}\*\*: (.*)\.$", text, re.MULTILINE)[1]
    found = {
      name: (kind, default.strip('"'))
      for name, kind, default in re.findall(r"(\w+) \((\w+)\) ([^;]+)", line)
    }
    has_block = script in TRAINING
    own = {n: f for n, f in flags.items() if not (has_block and n in TPU)}
    assert own == found, script


@pytest.mark.parametrize("script", THEN)
def test_every_flag_of_the_release_is_defined_and_marked_as_its(script):
  flags = command_flags.defined(f"bert_tf.cli.{script}")
  for name in THEN[script]:
    assert flags[name].group in command_flags.GROUPS[:2], name


@pytest.mark.parametrize("script", THEN)
def test_what_is_called_the_same_is_the_same(script):
  then, found = THEN[script], []
  for beginning, default in (("Required", "required"), ("Unset", "unset")):
    for name in listed(script, beginning):
      assert then[name][1] == default == now(script, name), name
      found.append(name)
  for item in listed(script, "With the same default"):
    name, default = item.split("=", 1)
    assert then[name][1].lower() == default, name
    assert same(then[name][1], now(script, name)), name
    found.append(name)
  assert len(found) == len(set(found))
  assert sorted([*found, *changed(script)]) == sorted(then)


@pytest.mark.parametrize("script", THEN)
def test_what_is_called_changed_is_changed_so(script):
  for name, (then, text) in changed(script).items():
    recorded_default = THEN[script][name][1]
    assert then == recorded_default.lower()
    assert now(script, name) == "unset" != recorded_default, name
    if recorded_default != "required":
      shown = FROM_VOCABULARY if name == "do_lower_case" else ""
      assert text == f"{FROM_RUN}{shown}{then}", name


@pytest.mark.parametrize("script", THEN)
def test_every_new_flag_is_listed_once(script):
  flags = command_flags.defined(f"bert_tf.cli.{script}")
  new = [
    name
    for name, flag in flags.items()
    if flag.group in command_flags.GROUPS and name not in THEN[script]
  ]
  found = listed(script, "New")
  assert len(found) == len(set(found))
  missing, gone = set(new) - set(found), set(found) - set(new)
  assert not missing | gone, (
    f"docs/coming_from_2019.md, {script}.py: add {missing}, remove {gone}"
  )
