"""Tests for the texts about flags: --help and the missing flags."""

import dataclasses
import re

import pytest
from absl import flags

from bert_tf import settings
from bert_tf.cli import config_flags, flag_texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
  output_dir: str = settings.setting(
    help="Folder. It is new.", original=True, topic=settings.CHECKPOINTS
  )
  task_name: str | None = settings.setting(
    None, "Task. Any case.", alternatives=("processor",), topic=settings.DATA
  )
  processor: str | None = settings.setting(
    None, "Class of yours.", topic=settings.DATA
  )
  rate: float = settings.setting(
    0.5, "Rate. High is fast.", topic=settings.TRAINING, main=True, maximum=1.0
  )
  size: str | None = settings.setting(
    None,
    "Size. tiny has 2 layers. Default: by task.",
    topic=settings.MODEL,
    main=True,
    choices=("tiny", "base"),
  )
  use_xla: bool = settings.setting(
    False, "Whether XLA compiles.", original=True, topic=settings.DEVICES
  )


@pytest.fixture
def parse(monkeypatch):
  """Returns a function from arguments to the flags that they set."""
  monkeypatch.setattr(flag_texts, "_MAX_FLAGS_OF_SHORT_HELP", 5)

  def parsed(*arguments):
    values = flags.FlagValues()
    config_flags.define(Config, values)
    values(["script", *arguments])
    return values

  return parsed


def sections(text):
  """Returns the lines below each title."""
  result = {}
  for part in text.split("\n\n"):
    title, *lines = part.splitlines()
    result[title] = [" ".join(line.split()) for line in lines]
  return result


def test_the_short_help_has_required_and_main_flags(parse):
  result = sections(flag_texts.short_help("Trains.\n", parse()))
  assert list(result) == [
    "Trains.",
    "Required:",
    "Main flags:",
    "--help=all explains all 6 flags, by topic.",
  ]
  assert result["Required:"] == [
    "--task_name Task. Required unless --processor is set.",
    "--output_dir Folder.",
  ]
  assert result["Main flags:"] == [
    "--size=tiny|base Size. Default: by task.",
    "--rate Rate. Default: 0.5.",
  ]


def test_the_complete_help_has_all_flags_by_topic(parse):
  result = sections(flag_texts.complete_help("Trains.\n", parse()))
  titles = list(result)
  assert titles[:-1] == [
    "Trains.",
    "Required:",
    f"{settings.MODEL}:",
    f"{settings.DATA}:",
    f"{settings.TRAINING}:",
    f"{settings.DEVICES}:",
  ]
  assert result["Required:"][-1] == "--output_dir * Folder. It is new."
  assert result[f"{settings.TRAINING}:"][0].startswith(
    "--rate Rate. High is fast. Default: 0.5. (number <= 1.0)"
  )
  assert result[f"{settings.DEVICES}:"] == [
    "--[no]use_xla * Whether XLA compiles. Default: false."
  ]


def test_the_help_of_few_flags_is_complete(parse, monkeypatch):
  monkeypatch.setattr(flag_texts, "_MAX_FLAGS_OF_SHORT_HELP", 6)
  values = parse()
  expected = flag_texts.complete_help("Trains.", values)
  assert flag_texts.short_help("Trains.", values) == expected


@pytest.mark.parametrize(
  ("arguments", "missing"),
  [
    ((), {"task_name", "output_dir"}),
    (("--task_name=a",), {"output_dir"}),
    (("--processor=a",), {"output_dir"}),
    (("--output_dir=a",), set()),  # The command checks the task itself.
  ],
)
def test_the_missing_flags_are_named(arguments, missing, parse):
  values = parse(*arguments)
  if not missing:
    flag_texts.check_required(values)
    return
  with pytest.raises(ValueError) as error:
    flag_texts.check_required(values)
  assert set(re.findall(r"[:,] --(\w+)", str(error.value))) == missing
