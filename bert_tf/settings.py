"""Settings: fields of config dataclasses with help, allowed values and default.

A field made by `setting` is the only declaration of a setting. The flags of the
command line (cli/config_flags.py), the checks and run.json all follow it.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from absl import logging

# The default of a setting that the user has to give.
REQUIRED: Any = dataclasses.MISSING

# Sentinel for `fallback`: the setting is never read from a saved run.
_NOTHING: Any = object()

_KEY = "setting"


class Dataclass(Protocol):
  """Any dataclass."""

  __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


Config = TypeVar("Config", bound=Dataclass)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
  """Properties of a setting beyond its dataclass field's name and type."""

  help: str = ""  # The meaning of the setting, with its unit.
  choices: Collection[str] | None = None  # The allowed values; None for all.
  minimum: float | None = None
  maximum: float | None = None
  original: bool = False  # Whether the release of 2018 has the flag.
  # The default if neither the user nor a saved run gives a value. With one, the
  # field's own default is None.
  fallback: Any = _NOTHING
  flag: str | None = None  # The name of the flag if not the field's.
  # Whether the flag of a tuple is given once for each item, instead of once
  # with commas between the items.
  repeated: bool = False
  # For a path that is written, "file", "files" (with commas between them),
  # "folder" or "prefix" (of several files).
  writes: str | None = None
  # For a path that is read whenever it is given, "file", "folder" or "model".
  reads: str | None = None
  topic: str = "Optional"  # The group of the setting in --help=all: a Topic.
  main: bool = False  # Whether --help shows it if it is optional.
  required: bool = False  # Whether the user has to give it or an alternative.
  alternatives: tuple[str, ...] = ()  # Flags that replace a required setting.

  @property
  def is_saved(self) -> bool:
    """Whether a saved run's value is used when the user gives none."""
    return self.fallback is not _NOTHING


def setting(default: Any = REQUIRED, help: str = "", **properties: Any) -> Any:
  """Returns a dataclass field with a Setting of these properties.

  The setting is required if it has no default or if it has alternatives. With a
  default of None and a `fallback`, a saved run gives the value if the user
  gives none.
  """
  required = default is REQUIRED or bool(properties.get("alternatives"))
  value = Setting(help=help, required=required, **properties)
  return dataclasses.field(default=default, metadata={_KEY: value})


class Topic(str):
  """A group of settings in --help=all; called, it makes a setting of them.

  `data(None, "The file.")` is `setting(None, "The file.", topic=data)`.
  """

  def __call__(
    self, default: Any = REQUIRED, help: str = "", **properties: Any
  ) -> Any:
    """Returns a field with a setting of this topic; see `setting`."""
    return setting(default, help, topic=self, **properties)


# In the order of --help=all.
TOPICS = (
  model := Topic("Model"),
  data := Topic("Data"),
  instances := Topic("Instances"),
  masking := Topic("Masking"),
  steps := Topic("Steps to run"),
  training := Topic("Training"),
  evaluation := Topic("Evaluation and prediction"),
  devices := Topic("Devices, speed and memory"),
  checkpoints := Topic("Checkpoints and logs"),
  server := Topic("Server"),
  limits := Topic("Batches and limits"),
  output := Topic("Output"),
  other := Topic("Optional"),
)


def saved_setting(
  config: type[Dataclass], name: str, note: str = "", main: bool = False
) -> Any:
  """Returns a setting of another config as a field with the default None.

  If the user gives no value, a saved run decides, or else the default of the
  other config. `note` is put before the setting's help.
  """
  field = config.__dataclass_fields__[name]
  setting = field.metadata[_KEY]
  changed = dataclasses.replace(
    setting,
    help=note + setting.help,
    original=False,
    fallback=setting.fallback if setting.is_saved else field.default,
    main=main,
  )
  return dataclasses.field(default=None, metadata={_KEY: changed})


def get_setting(field: dataclasses.Field) -> Setting | None:
  """Returns the setting of a field; None for a field without one."""
  return field.metadata.get(_KEY)


def check(config: Dataclass) -> None:
  """Raises ValueError for a value that its setting does not allow.

  Configs call this in `__post_init__`. None is always allowed.
  """
  for field in dataclasses.fields(config):
    name, value = field.name, getattr(config, field.name)
    setting = get_setting(field)
    if not setting or value is None:
      continue
    if setting.choices and value not in setting.choices:
      choices = ", ".join(setting.choices)
      raise ValueError(f"{name} {value!r} is unknown; use {choices}.")
    if isinstance(value, float) and not math.isfinite(value):
      raise ValueError(f"{name} {value} is not a finite number.")
    if setting.minimum is not None and value < setting.minimum:
      raise ValueError(f"{name} {value} must be at least {setting.minimum}.")
    if setting.maximum is not None and value > setting.maximum:
      raise ValueError(f"{name} {value} must be at most {setting.maximum}.")


def fill(config: Config, saved: Mapping[str, Any], where: str) -> Config:
  """Returns the config with saved values of the settings that are None.

  Nested configs are filled as well. The log names the values that are not the
  defaults, and those that the user replaces.

  Args:
    config: a config dataclass.
    saved: the values of a run, by setting name; None for what is not known.
    where: the file or folder of the saved values, for the log.
  """
  changes, taken, replaced = {}, [], []
  for field, value in _flat_fields(config):
    name, setting, known = field.name, get_setting(field), saved.get(field.name)
    if value is None and known is not None:
      changes[name] = known
      if known != _default(field):
        taken.append(f"{name}={known}")
    elif setting and setting.is_saved and known not in (None, value):
      replaced.append(f"{name}={value} instead of {known}")
  if taken:
    logging.info("From %s: %s.", where, ", ".join(taken))
  if replaced:
    logging.warning("Unlike %s: %s.", where, ", ".join(replaced))
  return replace_values(config, changes)


def with_defaults(config: Config) -> Config:
  """Returns the config with the defaults of the settings that are None."""
  open_fields = (field for field, v in _flat_fields(config) if v is None)
  return replace_values(config, {f.name: _default(f) for f in open_fields})


def _default(field: dataclasses.Field) -> Any:
  setting = get_setting(field)
  if setting and setting.is_saved:
    return setting.fallback
  return None if field.default is dataclasses.MISSING else field.default


def _flat_fields(config: Dataclass) -> Iterator[tuple[dataclasses.Field, Any]]:
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    if hasattr(value, "__dataclass_fields__"):
      yield from _flat_fields(value)
    else:
      yield field, value


def replace_values(config: Config, values: Mapping[str, Any]) -> Config:
  """Returns a config with other values by field, in nested configs too.

  Names that the config lacks are ignored.
  """
  changes = {}
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    if hasattr(value, "__dataclass_fields__"):
      changes[field.name] = replace_values(value, values)
    elif field.name in values:
      changes[field.name] = values[field.name]
  return dataclasses.replace(config, **changes)


def extract(config: Dataclass, config_class: type[Config]) -> Config:
  """Returns a config of another class, whose fields `config` also has."""
  fields = dataclasses.fields(config_class)
  return config_class(**{f.name: getattr(config, f.name) for f in fields})


def values(config: Dataclass) -> dict[str, Any]:
  """Returns the values by field name, with nested configs flattened."""
  return {field.name: value for field, value in _flat_fields(config)}


def training_settings(config: Dataclass) -> dict[str, Any]:
  """Returns the settings that decide what a training learns, by name.

  Those that a saved run keeps are left out, since `fill` names them.
  """
  topics = (data, instances, masking, training)
  return {
    field.name: value
    for field, value in _flat_fields(config)
    if (setting := get_setting(field))
    and not setting.is_saved
    and field.name != "stop_at_step"
    and (
      setting.topic in topics or field.name in ("precision", "deterministic")
    )
  }
