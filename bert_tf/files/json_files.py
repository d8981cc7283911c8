"""Reads small JSON files: configs, run.json, label maps.

Errors name the file and the expected content. The content of a file causes no
other error than a ValueError.
"""

import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.files import errors, paths

# Names of types in messages.
_KINDS: dict[Any, str] = {
  str: "a text",
  int: "a whole number",
  float: "a number",
  bool: "true or false",
  list: "a list",
  dict: "an object",
}

# A type such as str, list[str] or dict[str, float].
Kind = Any


def read(path: str, allows_nan: bool = False) -> Any:
  """Returns the value in a file.

  Args:
    path: the file.
    allows_nan: whether to accept NaN and Infinity. They are not JSON, but
      Python writes them.

  Raises:
    FileNotFoundError: if the file does not exist.
    ValueError: if the file is not JSON in UTF-8, UTF-16 or UTF-32.
  """
  content = paths.read_bytes(path)
  if json.detect_encoding(content).startswith("utf-8"):
    content = paths.without_mark(path, content)
  return parse(content, path, allows_nan)


def read_object(
  path: str,
  types: Mapping[str, Kind] | None = None,
  required: Sequence[str] = (),
  allows_nan: bool = False,
) -> dict[str, Any]:
  """Returns the object in a file.

  Args:
    path: the file.
    types: types of values by key. Values that are null or missing are not
      checked. Other keys may have any value.
    required: keys that must have a value.
    allows_nan: as for `read`.

  Raises:
    ValueError: if the file does not exist, is not JSON, or does not hold such
      an object.
  """
  try:
    value = read(path, allows_nan)
  except FileNotFoundError:
    raise ValueError(f"there is no {path}.") from None
  check_object(value, path, types, required)
  return value


def parse(content: bytes | str, path: str, allows_nan: bool = False) -> Any:
  """Returns the value of a JSON text. `path` is for errors; see `read`."""
  try:
    if isinstance(content, bytes):
      content = content.decode(json.detect_encoding(content))
    return json.loads(
      content,
      object_pairs_hook=_check_unique,
      parse_constant=None if allows_nan else _refuse_constant,
    )
  except UnicodeDecodeError as error:
    problem = f"byte {error.start} is not {error.encoding.upper()}"
  except RecursionError:
    problem = "its values are nested too deep"
  except ValueError as error:
    problem = str(error).rstrip(".")
  raise ValueError(f"{path}: it is not JSON: {problem}.")


def check_object(
  value: Any,
  path: str,
  types: Mapping[str, Kind] | None = None,
  required: Sequence[str] = (),
) -> None:
  """Raises ValueError unless a value is an object with the keys and types.

  The arguments are those of `read_object`.
  """
  if not isinstance(value, dict):
    shown = errors.shorten(repr(value))
    raise ValueError(f"{path} holds {shown}; it must hold a JSON object.")
  missing = [name for name in required if name not in value]
  if missing:
    raise ValueError(f"{path} lacks {', '.join(missing)}.")
  empty = [name for name in required if value[name] is None]
  if empty:
    raise ValueError(f"{path}: {empty[0]} is null.")
  for name, kind in (types or {}).items():
    if value.get(name) is not None and not _has_kind(value[name], kind):
      shown = errors.shorten(json.dumps(value[name]))
      raise ValueError(
        f"{path}: {name} is {shown}; it has to be {_describe_kind(kind)}."
      )


def _check_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  """Returns an object; raises ValueError if a key has two values."""
  values = dict(pairs)
  if len(values) < len(pairs):
    for name, value in pairs:
      if value != values[name]:
        raise ValueError(f"{name!r} occurs twice with different values")
  return values


def _refuse_constant(name: str) -> None:
  raise ValueError(f"{name} is not allowed")


def _has_kind(value: Any, kind: Kind) -> bool:
  """Returns whether a value has a type. A whole number is also a float."""
  base = typing.get_origin(kind) or kind
  if base is float:
    return type(value) in (int, float)
  if type(value) is not base:
    return False
  items = value.values() if base is dict else value
  parts = typing.get_args(kind)
  return not parts or all(_has_kind(item, parts[-1]) for item in items)


def _describe_kind(kind: Kind) -> str:
  """Returns the name of a type, for messages."""
  base, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
  name = _KINDS[base]
  return f"{name}, each value {_describe_kind(parts[-1])}" if parts else name
