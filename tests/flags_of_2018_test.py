"""The flags of the release exist, with the defaults of the release."""

import pathlib

import pytest

from tests.support import command_flags

TESTS = pathlib.Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "old_names.md"
# Flags that a model's folder decides if they are not given, by script.
MODEL_FILES = {"bert_config_file", "vocab_file"}
UNSET_TODAY = {
  "create_pretraining_data": set(),
  "run_pretraining": {"bert_config_file"},
  "run_classifier": MODEL_FILES
  | {"data_dir", "task_name", "do_lower_case", "max_seq_length"},
  "run_squad": MODEL_FILES
  | {"do_lower_case", "max_seq_length", "doc_stride", "max_query_length"}
  | {"version_2_with_negative"},
  "extract_features": MODEL_FILES | {"init_checkpoint", "do_lower_case"},
}


def read_record():
  """Returns type and default of the release's flags, by script and name."""
  flags = {}
  for line in (TESTS / "flags_of_2018.txt").read_text().splitlines():
    script, name, kind, default = line.split()
    flags.setdefault(script, {})[name] = (kind, default)
  return flags


RECORD = read_record()


def defined_default(script, name):
  """Returns the default of a defined flag, in the words of the record."""
  flag = command_flags.defined(f"{script}.py")[name]
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


@pytest.mark.parametrize("script", RECORD)
def test_help_marks_the_flags_of_the_release(script):
  marked = command_flags.marked(f"{script}.py")
  # These are flags of other scripts of the release.
  shared = {"vocab_file", "masked_lm_prob", "do_whole_word_mask"}
  assert marked - shared <= RECORD[script].keys() <= marked


@pytest.mark.parametrize("script", RECORD)
def test_defaults_are_those_of_the_release(script):
  page = PAGE.read_text().split("## Names of modules")[0]
  for name, (_, then) in RECORD[script].items():
    now = defined_default(script, name)
    if name in UNSET_TODAY[script]:
      assert now == "unset" != then, name
      assert f"\n| `--{name}`" in page, name
    else:
      assert is_same(then, now), name
