"""Defines flags for the settings of a config and builds it from the flags."""

import dataclasses
import types
import typing
from collections.abc import Collection, Iterator
from typing import Any

from absl import flags

from bert_tf import settings
from bert_tf.files import atomic

# The group of flags without a default in --helpxml and --helpfull. Other flags
# are grouped by the topics of their settings.
REQUIRED = "Required"


class _Integers(flags.ArgumentParser):
  syntactic_help = "comma-separated integers"

  def parse(self, argument: str | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(argument, tuple):
      return argument
    return tuple(map(int, argument.split(",")))

  def flag_type(self) -> str:
    return "comma separated list of integers"


class _BooleanOrAuto(flags.BooleanParser):
  """Parses true, false and auto; auto means None."""

  def parse(self, argument: str | bool | int) -> bool | None:
    return None if argument == "auto" else super().parse(argument)


def define(
  config_class: type[settings.Dataclass],
  flag_values: flags.FlagValues = flags.FLAGS,
) -> None:
  """Defines a flag for each setting, nested configs included."""
  for field, setting, kind in _settings(config_class):
    has_default = field.default is not dataclasses.MISSING
    name = setting.flag or field.name
    setting = dataclasses.replace(setting, help=_help(setting))
    arguments: dict[str, Any] = {
      "name": name,
      "default": field.default if has_default else None,
      "help": setting.help,
      "flag_values": flag_values,
      "module_name": setting.topic if has_default else REQUIRED,
    }
    if kind in (int, float) and not setting.choices:
      arguments["lower_bound"] = setting.minimum
      arguments["upper_bound"] = setting.maximum
    if setting.choices:
      flags.DEFINE_enum(enum_values=setting.choices, **arguments)
    elif kind is bool and field.default is None and not setting.is_saved:
      flags.DEFINE(_BooleanOrAuto(), boolean=True, **arguments)
    elif kind is bool:
      flags.DEFINE_bool(**arguments)
    elif kind is int:
      flags.DEFINE_integer(**arguments)
    elif kind is float:
      flags.DEFINE_float(**arguments)
    elif setting.repeated:
      flags.DEFINE_multi_string(**arguments)
    elif kind == tuple[int, ...]:
      serializer: flags.ArgumentSerializer = flags.ListSerializer(",")
      flags.DEFINE(_Integers(), serializer=serializer, **arguments)
    elif kind == tuple[str, ...]:
      flags.DEFINE_list(**arguments)
    else:
      flags.DEFINE_string(**arguments)
    flag_values[name].setting = setting


def _help(setting: settings.Setting) -> str:
  """The help, with alternatives and the default saved in run.json."""
  text = setting.help
  if setting.is_saved and "Default:" not in text:
    text += " Default: the value in the model's run.json"
    if setting.fallback is not None:
      text += f", else {setting.fallback}"
    text += "."
  if setting.alternatives:
    others = " or ".join(f"--{name}" for name in setting.alternatives)
    text += f" Required unless {others} is set."
  return text


def build(
  config_class: type[settings.Config],
  flag_values: flags.FlagValues = flags.FLAGS,
  **values: Any,
) -> settings.Config:
  """Returns the config of the flags and checks its output paths.

  Args:
    config_class: the class given to `define`.
    flag_values: the flags that `define` has defined.
    **values: values of fields that have no flag or that override it, by field
      name, nested fields included. A value may be a whole nested config.

  Raises:
    OSError: if an output path cannot be written. The check comes before any
      data are read.
  """
  arguments: dict[str, Any] = {}
  for field, setting, kind in _fields(config_class):
    if field.name in values:
      arguments[field.name] = values[field.name]
    elif setting:
      value: Any = flag_values[setting.flag or field.name].value
      is_list = isinstance(value, list)
      arguments[field.name] = tuple(value) if is_list else value
    elif _is_config(kind) and any(_settings(kind)):
      arguments[field.name] = build(kind, flag_values, **values)
  config = config_class(**arguments)
  _check_outputs(config)
  return config


def _check_outputs(config: settings.Dataclass) -> None:
  for field, setting, kind in _fields(type(config)):
    value = getattr(config, field.name)
    if setting and setting.writes and value:
      is_list = setting.writes == "files"
      for path in value.split(",") if is_list else [value]:
        is_folder = setting.writes == "folder"
        atomic.check_writable(path.strip(), field.name, is_folder)
    elif _is_config(kind) and value is not None:
      _check_outputs(value)


def is_given(name: str, flag_values: flags.FlagValues = flags.FLAGS) -> bool:
  """Returns whether the user set a flag."""
  return bool(flag_values[name].present)


def own_flags(
  flag_values: flags.FlagValues = flags.FLAGS,
) -> list[flags.Flag]:
  """Returns the flags made by `define`, by topic.

  The attribute `setting` of each flag is its Setting, with the complete help.
  """
  all_flags = [flag_values[name] for name in flag_values]
  return sorted(
    (flag for flag in all_flags if hasattr(flag, "setting")),
    key=lambda flag: settings.TOPICS.index(flag.setting.topic),
  )


def change(
  name: str,
  default: Any,
  note: str,
  flag_values: flags.FlagValues = flags.FLAGS,
) -> None:
  """Changes the default of a flag and adds a note to its help."""
  flag = flag_values[name]
  flag_values.set_default(name, default)
  flag.help = f"{flag.setting.help} {note}"
  flag.setting = dataclasses.replace(flag.setting, help=flag.help)


def refuse_given(names: Collection[str], reason: str) -> None:
  """Raises ValueError if the user set one of the flags.

  `reason` continues a sentence, such as "is for checkpoints".
  """
  for name in names:
    if is_given(name):
      raise ValueError(f"--{name} {reason}; leave it out.")


def given_values(
  flag_values: flags.FlagValues = flags.FLAGS,
) -> dict[str, Any]:
  """Returns the values of all flags made by `define`, by "--name"."""
  return {f"--{flag.name}": flag.value for flag in own_flags(flag_values)}


def _fields(
  config_class: type[settings.Dataclass],
) -> Iterator[tuple[dataclasses.Field, settings.Setting | None, Any]]:
  """Yields the fields with their settings and types; X for `X | None`."""
  types_by_name = typing.get_type_hints(config_class)
  for field in dataclasses.fields(config_class):
    kind = types_by_name[field.name]
    if isinstance(kind, types.UnionType):
      kind, *_ = [t for t in typing.get_args(kind) if t is not type(None)]
    yield field, settings.get_setting(field), kind


def _settings(
  config_class: type[settings.Dataclass],
) -> Iterator[tuple[dataclasses.Field, settings.Setting, Any]]:
  for field, setting, kind in _fields(config_class):
    if setting:
      yield field, setting, kind
    elif _is_config(kind):
      yield from _settings(kind)


def _is_config(kind: Any) -> bool:
  return dataclasses.is_dataclass(kind)
