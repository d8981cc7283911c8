"""Settings: fields of config dataclasses that say all there is to say.

A field made by `setting` carries its help, its allowed values and its default.
The command line is made of these (cli/config_flags.py), so that nothing about
a setting stands twice.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

# The default of a setting that has none.
REQUIRED: Any = dataclasses.MISSING

# What `otherwise` is of a setting that no saved run decides.
_NOTHING: Any = object()

_KEY = "setting"


class Dataclass(Protocol):
  """Any dataclass."""

  __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


Config = TypeVar("Config", bound=Dataclass)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
  """What a field says besides its name, type and default."""

  help: str  # What the setting means, with its unit.
  # The allowed values; all of the type if None.
  choices: tuple[str, ...] | None
  minimum: float | None  # The smallest allowed number.
  maximum: float | None  # The largest allowed number.
  original: bool  # Whether the release of 2018 has it.
  otherwise: Any  # The value where neither the user nor a saved run gives one.
  flag: str | None  # The name of its flag, where it cannot be the field's.
  # Whether a tuple's flag is given once an item, instead of with commas between
  # the items.
  repeated: bool
  # Of a path to write: "file", "files" with commas between them, "folder", or
  # "prefix" of files. None for other settings.
  writes: str | None

  @property
  def is_saved(self) -> bool:
    """Whether a saved run decides what is left out."""
    return self.otherwise is not _NOTHING


def setting(
  default: Any = REQUIRED,
  help: str = "",
  *,
  choices: tuple[str, ...] | None = None,
  minimum: float | None = None,
  maximum: float | None = None,
  original: bool = False,
  otherwise: Any = _NOTHING,
  flag: str | None = None,
  repeated: bool = False,
  writes: str | None = None,
) -> Any:
  """Returns a dataclass field, which is required if it has no default.

  The other arguments are those of Setting. The default None together with
  `otherwise` leaves the decision to `settle`.
  """
  return dataclasses.field(
    default=default,
    metadata={
      _KEY: Setting(
        help=help,
        choices=choices,
        minimum=minimum,
        maximum=maximum,
        original=original,
        otherwise=otherwise,
        flag=flag,
        repeated=repeated,
        writes=writes,
      )
    },
  )


def saved_setting(config: type[Dataclass], name: str, note: str = "") -> Any:
  """Returns a setting of another config as a field that may be left out.

  A saved run then decides, else the default of the other config.

  Args:
    config: the class that declares the setting.
    name: the setting.
    note: put before its help.
  """
  field = config.__dataclass_fields__[name]
  setting: Setting = field.metadata[_KEY]
  fallback = setting.otherwise if setting.is_saved else field.default
  changed = dataclasses.replace(
    setting, help=note + setting.help, original=False, otherwise=fallback
  )
  return dataclasses.field(default=None, metadata={_KEY: changed})


def of(field: dataclasses.Field) -> Setting | None:
  """Returns what `setting` was told of a field, None for other fields."""
  return field.metadata.get(_KEY)


def check(config: Dataclass) -> None:
  """Raises ValueError for a value that its setting does not allow.

  Configs call this in `__post_init__`. None is always allowed. A field that a
  subclass makes plain, so that it has no flag, keeps the bounds of its base.
  """
  for field in dataclasses.fields(config):
    found, value = _inherited(config, field.name), getattr(config, field.name)
    if not found or value is None:
      continue
    if found.choices and value not in found.choices:
      raise ValueError(
        f"{field.name} {value!r} is not known; use {', '.join(found.choices)}."
      )
    if isinstance(value, float) and not math.isfinite(value):
      raise ValueError(f"{field.name} {value} is no number to compute with.")
    if found.minimum is not None and value < found.minimum:
      raise ValueError(f"{field.name} {value} is below {found.minimum}.")
    if found.maximum is not None and value > found.maximum:
      raise ValueError(f"{field.name} {value} exceeds {found.maximum}.")


def _inherited(config: Dataclass, name: str) -> Setting | None:
  """Returns the setting of a field in the nearest class that has one."""
  for kind in type(config).__mro__:
    field = getattr(kind, "__dataclass_fields__", {}).get(name)
    if field is not None and (setting := of(field)):
      return setting
  return None


def settle(
  config: Config, saved: Mapping[str, Any] | None, where: str
) -> Config:
  """Decides settings that were left out by what a saved run says of them.

  Only settings with `otherwise` take part, those of nested configs too.

  Args:
    config: a config dataclass.
    saved: values by setting; None for a value, or for all, if not known.
    where: the file that says so, for errors.

  Returns:
    The config with each None replaced by the saved value, else by `otherwise`.

  Raises:
    ValueError: for a given value that differs from the saved one.
  """
  saved = saved or {}
  changes = {}
  for field in dataclasses.fields(config):
    found, value = of(field), getattr(config, field.name)
    if hasattr(value, "__dataclass_fields__"):
      changes[field.name] = settle(value, saved, where)
    elif found and found.is_saved:
      known = saved.get(field.name)
      if value is None:
        changes[field.name] = found.otherwise if known is None else known
      elif known is not None and known != value:
        raise ValueError(
          f"{field.name} {value!r} contradicts {where}, which says {known!r}; "
          f"leave `{field.name}` out."
        )
  return dataclasses.replace(config, **changes)


def changed(config: Config, values: Mapping[str, Any]) -> Config:
  """Returns a config with other values, those of nested configs too.

  Args:
    config: a config dataclass.
    values: by field; what the config does not have is passed over.
  """
  changes = {}
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    if hasattr(value, "__dataclass_fields__"):
      changes[field.name] = changed(value, values)
    elif field.name in values:
      changes[field.name] = values[field.name]
  return dataclasses.replace(config, **changes)


def part(config: Dataclass, kind: type[Config]) -> Config:
  """Returns the values of a config for the fields of another config class."""
  names = [field.name for field in dataclasses.fields(kind)]
  return kind(**{name: getattr(config, name) for name in names})


def values(config: Dataclass) -> dict[str, Any]:
  """Returns the values by field, those of nested configs too."""
  flat: dict[str, Any] = {}
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    nested = hasattr(value, "__dataclass_fields__")
    flat |= values(value) if nested else {field.name: value}
  return flat
