"""Flags of a config: defining and explaining them, building it from them."""

import dataclasses
import functools
import os
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from absl import flags

from bert_tf import settings
from bert_tf.checkpoint import download
from bert_tf.files import atomic, messages, paths

# The group of flags without a default in --helpxml and --helpfull. Other flags
# are grouped by the topics of their settings.
REQUIRED = "Required"

# Maximum flags of a command whose --help shows all flags.
_MAX_FLAGS_OF_SHORT_HELP = 12

_WIDTH = 80
_TEXT_COLUMN = 27


class _Integers(flags.ListParser):
  def parse(self, argument: str | list[int]) -> list[int]:
    return list(map(int, super().parse(argument)))


class _BooleanOrAuto(flags.BooleanParser):
  """Parses true, false and auto; auto means None."""

  def parse(self, argument: str | bool | int) -> bool | None:
    return None if argument == "auto" else super().parse(argument)


# How flags of a type are defined if their settings say nothing else.
_DEFINERS: dict[Any, Callable[..., Any]] = {
  str: flags.DEFINE_string,
  bool: flags.DEFINE_bool,
  int: flags.DEFINE_integer,
  float: flags.DEFINE_float,
  tuple[str, ...]: flags.DEFINE_list,
  tuple[int, ...]: functools.partial(
    flags.DEFINE, parser=_Integers(), serializer=flags.ListSerializer(",")
  ),
}


def define(
  config_class: type[settings.Dataclass],
  flag_values: flags.FlagValues = flags.FLAGS,
) -> None:
  """Defines a flag for each setting, nested configs included.

  The attribute `setting` of each flag is its Setting, with the complete help.
  """
  for field, setting, value_type in _settings(config_class):
    is_required = field.default is dataclasses.MISSING
    default = None if is_required else field.default
    text, name = setting.help, setting.flag or field.name
    if setting.is_saved and "Default:" not in text:
      text += " Default: what the model's run.json says"
      text += "." if setting.fallback is None else f", else {setting.fallback}."
    definer, options = _DEFINERS[value_type], dict[str, Any]()
    if setting.choices:
      definer, options = flags.DEFINE_enum, {"enum_values": setting.choices}
    elif setting.repeated:
      definer = flags.DEFINE_multi_string
    elif value_type in (int, float):
      options["lower_bound"] = setting.minimum
      options["upper_bound"] = setting.maximum
    elif value_type is bool and default is None and not setting.is_saved:
      definer = flags.DEFINE
      options = {"parser": _BooleanOrAuto(), "boolean": True}
    definer(
      name=name,
      default=list(default) if isinstance(default, tuple) else default,
      help=text,
      flag_values=flag_values,
      module_name=REQUIRED if is_required else setting.topic,
      **options,
    )
    flag_values[name].setting = dataclasses.replace(setting, help=text)


def build(
  config_class: type[settings.Config],
  flag_values: flags.FlagValues = flags.FLAGS,
  **values: Any,
) -> settings.Config:
  """Returns the config of the flags that `define` has defined.

  Args:
    config_class: the class given to `define`.
    flag_values: the flags.
    **values: values of fields that have no flag or that override it, by field
      name, nested fields included.
  """
  arguments: dict[str, Any] = {}
  for field, setting, value_type in _fields(config_class):
    if field.name in values:
      arguments[field.name] = values[field.name]
    elif setting:
      value: Any = flag_values[setting.flag or field.name].value
      is_list = isinstance(value, list)
      arguments[field.name] = tuple(value) if is_list else value
    elif hasattr(value_type, "__dataclass_fields__"):
      arguments[field.name] = build(value_type, flag_values, **values)
  return config_class(**arguments)


def choose_steps(flag_values: flags.FlagValues = flags.FLAGS) -> set[str]:
  """Returns the steps to run, of do_train, do_eval and do_predict.

  A user chooses steps by setting their flags to true, which turns off the steps
  that the command would run by default.
  """
  steps = [
    flag_values[name]
    for name in ("do_train", "do_eval", "do_predict")
    if name in flag_values
  ]
  if any(flag.present and flag.value for flag in steps):
    for flag in steps:
      flag.value = bool(flag.present and flag.value)
  return {flag.name for flag in steps if flag.value}


def is_given(name: str) -> bool:
  """Returns whether the user set a flag."""
  return bool(flags.FLAGS[name].present)


def require_one(*names: str) -> None:
  """Raises ValueError unless the user set exactly one of the flags."""
  if sum(map(is_given, names)) != 1:
    options = " or ".join(f"--{name}" for name in names)
    raise ValueError(f"set either {options}.")


def refuse_given(names: Iterable[str], reason: str) -> None:
  """Raises ValueError if the user set one of the flags.

  `reason` continues a sentence, such as "is for checkpoints".
  """
  for name in filter(is_given, names):
    raise ValueError(f"--{name} {reason}; leave it out.")


def get_flags(flag_values: flags.FlagValues = flags.FLAGS) -> list[flags.Flag]:
  """Returns the flags made by `define`, by topic."""
  all_flags = [flag_values[name] for name in flag_values]
  return sorted(
    (flag for flag in all_flags if hasattr(flag, "setting")),
    key=lambda flag: settings.TOPICS.index(flag.setting.topic),
  )


def _fields(
  config_class: type[settings.Dataclass],
) -> Iterator[tuple[dataclasses.Field, settings.Setting | None, Any]]:
  """Yields the fields with their settings and types; X for `X | None`."""
  types_by_name = typing.get_type_hints(config_class)
  for field in dataclasses.fields(config_class):
    value_type = types_by_name[field.name]
    if isinstance(value_type, types.UnionType):
      members = typing.get_args(value_type)
      value_type = next(t for t in members if t is not types.NoneType)
    yield field, settings.get_setting(field), value_type


def _settings(
  config_class: type[settings.Dataclass],
) -> Iterator[tuple[dataclasses.Field, settings.Setting, Any]]:
  for field, setting, value_type in _fields(config_class):
    if setting:
      yield field, setting, value_type
    elif hasattr(value_type, "__dataclass_fields__"):
      yield from _settings(value_type)


def is_script() -> bool:
  """Returns whether a script of run_scripts/ runs, not a `bert-tf` command."""
  return not sys.argv[0].startswith("bert-tf ")


def help_text(
  description: str,
  is_complete: bool,
  flag_values: flags.FlagValues = flags.FLAGS,
) -> str:
  """Returns the description and the flags, the required ones first.

  A required flag and its alternatives are a section. A complete help explains
  all flags, by topic, another one the main flags. If a script runs, the
  examples in the description call this script.
  """
  text = description.strip()
  if is_script():
    command = r"bert-tf [a-z-]+|python run_scripts/\w+\.py"
    text = re.sub(command, f"python {sys.argv[0]}", text)
  all_flags = get_flags(flag_values)
  end = f"--help=all explains all {len(all_flags)} flags, by topic."
  if is_complete or len(all_flags) <= _MAX_FLAGS_OF_SHORT_HELP:
    is_complete = True
    end = "--helpfull adds the flags of absl, such as --verbosity."
    if any(flag.setting.original for flag in all_flags):
      end = f"* The original release has this flag as well.\n{end}"
  # By title, and by the flag that a section is about, as titles may be equal.
  sections: dict[tuple[str, str], list[flags.Flag]] = {(REQUIRED, ""): []}
  left = {flag.name: flag for flag in all_flags}
  for flag in all_flags:
    if flag.setting.required:
      names = [flag.name, *flag.setting.alternatives]
      group = [left.pop(name) for name in names if name in left]
      shown = {flag.name for flag in group}
      others = [f"--{name}" for name in names if name not in shown]
      title = "One of" if len(group) > 1 else REQUIRED
      title += f", without {' or '.join(others)}" if others else ""
      key = (title, flag.name if flag.setting.alternatives else "")
      sections.setdefault(key, []).extend(group)
  for flag in left.values():
    if is_complete or flag.setting.main:
      title = flag.setting.topic if is_complete else "Main flags"
      sections.setdefault((title, ""), []).append(flag)
  parts = [
    "\n".join([f"{title}:", *(_explain(flag, is_complete) for flag in group)])
    for (title, _), group in sections.items()
    if group
  ]
  return "\n\n".join([text, *parts, end])


def _explain(flag: flags.Flag, is_complete: bool) -> str:
  """Returns the entry of a flag; a short one has its first sentence."""
  setting, text = flag.setting, flag.setting.help
  name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
  with_choices = f"{name}={'|'.join(setting.choices or ())}"
  if setting.choices and len(with_choices) < _WIDTH - 2:
    name = with_choices
  has_default = flag.default not in (None, "", [], ())
  if has_default and not setting.required and "Default:" not in text:
    value = flag.default_as_str.strip("'")
    text += f" Default: {value}."
  if is_complete:
    allowed = flag.parser.syntactic_help
    return entry(
      f"{name} *" if setting.original else name,
      f"{text} ({allowed})" if allowed else text,
    )
  first, *others = re.split(r"(?<=[^.]\.) ", text)
  kept = [sentence for sentence in others if sentence.startswith("Default:")]
  return entry(name, " ".join([first, *kept]))


def check_required(flag_values: flags.FlagValues = flags.FLAGS) -> None:
  """Raises ValueError that names all missing or empty required flags.

  The command itself checks a flag with alternatives among its flags, since a
  file may replace it: a run in output_dir replaces --model.
  """
  missing = []
  for flag in get_flags(flag_values):
    if not flag.setting.required:
      continue
    if flag.present and flag.value in ("", [], [""]):
      raise ValueError(f"--{flag.name} is empty.")
    names = (flag.name, *flag.setting.alternatives)
    if not any(n in flag_values and flag_values[n].present for n in names):
      missing.append(names)
  if any(set(flag_values).isdisjoint(names[1:]) for names in missing):
    texts = [" or ".join(f"--{n}" for n in names) for names in missing]
    raise ValueError(
      f"these flags are missing: {', '.join(texts)}; see --help."
    )


def check_paths() -> None:
  """Raises OSError or ValueError for a path that cannot be written or read.

  Globs and remote inputs are not checked. The commands themselves would import
  TensorFlow before, which takes seconds.
  """
  only_evaluates = choose_steps() == {"do_eval"}
  given = [flag for flag in get_flags() if flag.value]
  for flag in given:
    writes = flag.setting.writes
    # A run in a folder that can only be read may be evaluated.
    if writes and not (writes == "folder" and only_evaluates):
      for path in flag.value.split(",") if writes == "files" else [flag.value]:
        atomic.check_writable(path.strip(), flag.name, writes == "folder")
  for flag in given:
    path, reads = flag.value, flag.setting.reads
    # A processor of the user's may take anything as its data_dir.
    if reads == "folder" and getattr(flags.FLAGS, "processor", None):
      continue
    if reads == "model":
      download.resolve_model(path)
    elif reads and not paths.is_remote(path):
      fault = ""
      if not paths.exists(path):
        raise FileNotFoundError(f"--{flag.name}={path}: no such {reads}.")
      if reads == "folder" and not paths.is_folder(path):
        fault = f"a file. Give its folder: {os.path.dirname(path) or '.'}"
      elif reads == "file" and paths.is_folder(path):
        names = messages.join_names(sorted(paths.list_folder(path)), 5)
        fault = f"a folder. Give one of its files: {names or 'it has none'}"
      elif reads == "file" and paths.is_file(path):
        fault = "" if paths.num_bytes(path) else "empty (0 bytes)"
      if fault:
        raise ValueError(f"--{flag.name}={path} is {fault}.")


def entry(name: str, text: str) -> str:
  """Formats a name and its text in two columns.

  A long name has a line of its own, above the text.
  """
  lead, above = f"  {name}  ", ""
  if len(lead) > _TEXT_COLUMN:
    lead, above = "", f"{lead.rstrip()}\n"
  return above + textwrap.fill(
    text,
    _WIDTH,
    initial_indent=lead.ljust(_TEXT_COLUMN),
    subsequent_indent=" " * _TEXT_COLUMN,
    break_long_words=False,
    break_on_hyphens=False,
  )
