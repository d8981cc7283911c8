"""Flags made from configs, their help, and configs built from flags."""

import dataclasses
import re

import pytest
from absl import flags

from bert_tf import settings
from bert_tf.cli import config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
  num_shards: int = settings.setting(1, "Shards.", minimum=1)
  rate: float = settings.setting(0.5, "Rate.", minimum=0.0, maximum=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plain:
  depth: int = 2
  width: int = settings.setting(1, "Width.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Special(Plain):
  depth: int = settings.setting(2, "Depth.")
  width: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
  input_file: str = settings.setting(help="What is read.", original=True)
  output_file: str = settings.setting(help="What is written.")
  do_eval: bool = settings.setting(False, "Whether.", original=True)
  do_lower_case: bool | None = settings.model(None, "Case.", fallback=True)
  use_xla: bool | None = settings.setting(None, "Whether XLA compiles.")
  task: str | None = settings.setting(None, "Task.", choices=("a", "b"))
  top_k: int | None = settings.setting(None, "Answers.")
  layers: tuple[int, ...] = settings.setting((-1, -2), "Layers.")
  words: tuple[str, ...] = settings.setting((), "Words.")
  text: tuple[str, ...] = settings.setting((), "Texts.", repeated=True)
  source: str = settings.setting("x", "Source.", flag="from")
  inner: Inner
  computed: int = 7


REQUIRED = ("--input_file=in", "--output_file=out")


def parsed(config_class, *arguments):
  values = flags.FlagValues()
  config_flags.define(config_class, values)
  values(["script", *arguments])
  return values


def built(*arguments, **values):
  flag_values = parsed(Outer, *REQUIRED, *arguments)
  return config_flags.build(Outer, flag_values, **values)


def test_without_flags_the_defaults_of_the_config_hold():
  assert built() == Outer(input_file="in", output_file="out", inner=Inner())


def test_flags_set_the_fields_of_nested_configs_too():
  assert built(
    "--do_eval",
    "--nodo_lower_case",
    "--task=b",
    "--top_k=3",
    "--layers=-1, 0",
    "--words=one,two",
    "--text=a, b",
    "--text=c",
    "--from=y",
    "--num_shards=4",
    "--rate=1",
  ) == Outer(
    input_file="in",
    output_file="out",
    do_eval=True,
    do_lower_case=False,
    task="b",
    top_k=3,
    layers=(-1, 0),
    words=("one", "two"),
    text=("a, b", "c"),
    source="y",
    inner=Inner(num_shards=4, rate=1.0),
  )


@pytest.mark.parametrize(
  ("argument", "parts"),
  [
    ("--num_shards=0", ("num_shards", "0", "positive")),
    ("--rate=1.5", ("rate", "1.5", "[0.0, 1.0]")),
    ("--task=c", ("task", "c", "a|b")),
    ("--top_k=some", ("top_k", "some")),
    ("--layers=1,x", ("layers", "x")),
    ("--layers=1,", ("layers", "1,")),
    ("--use_xla=perhaps", ("use_xla", "perhaps")),
  ],
)
def test_a_wrong_value_is_named_with_its_flag(argument, parts):
  with pytest.raises(flags.IllegalFlagValueError) as error:
    parsed(Outer, *REQUIRED, argument)
  for part in parts:
    assert part in str(error.value)


def test_a_setting_of_a_subclass_is_a_flag():
  base, special = parsed(Plain), parsed(Special, "--depth=3")
  assert "depth" not in base and "width" not in special
  assert config_flags.build(Special, special) == Special(depth=3, width=1)


def test_the_help_has_the_default_of_runs():
  text = parsed(Outer, *REQUIRED)["do_lower_case"].help
  assert "run.json" in text and "True" in text


def test_explicit_values_override_flags():
  config = built("--num_shards=2", num_shards=3, computed=9, task="a")
  assert config.inner.num_shards == 3
  assert (config.computed, config.task) == (9, "a")
  assert built(inner=Inner(rate=0.1)).inner.rate == 0.1


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    ((), None),
    (("--use_xla",), True),
    (("--nouse_xla",), False),
    (("--use_xla=true", "--use_xla=auto"), None),
  ],
)
def test_an_optional_boolean_may_be_auto(arguments, expected):
  assert built(*arguments).use_xla is expected


@dataclasses.dataclass(frozen=True, kw_only=True)
class Described:
  output_dir: str = settings.checkpoints(
    help="Folder. It is new.", original=True
  )
  task_name: str | None = settings.data(
    None, "Task. Any case.", alternatives=("processor",)
  )
  processor: str | None = settings.data(None, "Class of yours.")
  rate: float = settings.training(
    0.5, "Rate. High is fast.", main=True, maximum=1.0
  )
  size: str | None = settings.model(
    None,
    "Size. tiny has 2 layers. Default: by task.",
    main=True,
    choices=("tiny", "base"),
  )
  use_xla: bool = settings.devices(
    False, "Whether XLA compiles.", original=True
  )


def sections(is_complete):
  """Returns the lines below each title of the help."""
  text = config_flags.help_text("Trains.\n", is_complete, parsed(Described))
  parts = [part.splitlines() for part in text.split("\n\n")]
  return {t: [" ".join(line.split()) for line in lines] for t, *lines in parts}


def test_the_short_help_has_required_and_main_flags(monkeypatch):
  monkeypatch.setattr(config_flags, "_MAX_FLAGS_OF_SHORT_HELP", 5)
  assert sections(False) == {
    "Trains.": [],
    "Required:": [
      "--output_dir Folder.",
    ],
    "One of:": ["--task_name Task.", "--processor Class of yours."],
    "Main flags:": [
      "--size=tiny|base Size. Default: by task.",
      "--rate Rate. Default: 0.5.",
    ],
    "--help=all explains all 6 flags, by topic.": [],
  }


def test_the_complete_help_has_all_flags_by_topic():
  result = sections(True)
  topics = [
    *(settings.model, settings.training, settings.devices),
  ]
  titles = ["Trains.", "Required:", "One of:", *(f"{t}:" for t in topics)]
  assert list(result)[:-1] == titles
  assert result["Required:"] == ["--output_dir * Folder. It is new."]
  assert result[f"{settings.training}:"][0].startswith(
    "--rate Rate. High is fast. Default: 0.5. (number <= 1.0)"
  )
  assert result[f"{settings.devices}:"] == [
    "--[no]use_xla * Whether XLA compiles. Default: false."
  ]
  assert sections(False) == result  # The help of few flags is complete.


@pytest.mark.parametrize(
  ("arguments", "missing"),
  [
    ((), {"task_name", "output_dir"}),
    (("--task_name=a",), {"output_dir"}),
    (("--processor=a",), {"output_dir"}),
  ],
)
def test_the_missing_flags_are_named(arguments, missing):
  with pytest.raises(ValueError) as error:
    config_flags.check_required(parsed(Described, *arguments))
  assert set(re.findall(r"[:,] --(\w+)", str(error.value))) == missing
  # The command itself checks flags with alternatives.
  config_flags.check_required(parsed(Described, "--output_dir=a"))
