"""Reads JSON files, validates their values with pydantic, and encodes JSON."""

import functools
import json
import os
from collections.abc import Callable
from typing import Any

from bert_tf.files import atomic, messages, paths, text_lines


def read(path: str, value_type: Any = Any) -> Any:
  """Returns the value in a JSON file in UTF-8, UTF-16 or UTF-32, as `check`.

  Raises:
    OSError: if the file cannot be opened.
    ValueError: if it is not JSON, or has another type. Names the file.
  """
  return check(parse(paths.read_bytes(path), path), value_type, path)


def read_object(path: str) -> dict[str, Any]:
  """Reads the object in a JSON file; raises the errors of `read`."""
  return dict(read(path, dict[str, Any]))


def find_object(folder: str, name: str) -> dict[str, Any] | None:
  """Returns the object in a JSON file of a folder; None without the file."""
  path = os.path.join(folder, name)
  return read_object(path) if paths.exists(path) else None


def write(path: str, value: Any) -> None:
  """Writes a value to a JSON file, indented by two spaces."""
  atomic.write_lines(path, [json.dumps(value, indent=2)])


def parse(content: bytes | str, path: str) -> Any:
  """Parses a JSON text, as `read`. `path` is for the error.

  NaN and Infinity are accepted, which Python writes although JSON lacks them.
  """
  try:
    return json.loads(content)
  except RecursionError:
    raise ValueError(f"{path} is not JSON: it is nested too deeply.") from None
  except ValueError as error:
    form = text_lines.name_format(content) if isinstance(content, bytes) else ""
    but = f", but {form}" if form else ""
    raise ValueError(f"{path} is not JSON{but}: {error}.") from None


def check(value: Any, value_type: Any, path: str) -> Any:
  """Validates a JSON value as a type that pydantic.TypeAdapter takes.

  A text such as "8" is accepted as a number, and 1 as True. Keys that a
  dataclass lacks are ignored.

  Raises:
    ValueError: names the file, each faulty key, its value and what is allowed.
  """
  import pydantic  # Takes 0.07 s, and --help needs none of it.

  try:
    return _adapter(value_type).validate_python(value)
  except pydantic.ValidationError as error:
    faults = []
    for fault in error.errors(include_url=False)[:5]:
      key = ".".join(map(str, fault["loc"])) or "it"
      given = messages.shorten(json.dumps(fault["input"]))
      is_missing = fault["type"] == "missing"
      what = "is missing" if is_missing else f"is {given}; {fault['msg']}"
      faults.append(f"{key} {what}")
    raise ValueError(f"{path}: {'; '.join(faults)}.") from None


@functools.cache
def _adapter(value_type: Any) -> Any:
  import pydantic

  return pydantic.TypeAdapter(value_type)


def encode(
  value: Any,
  indent: int | None = None,
  default: Callable[[Any], Any] | None = None,
) -> str:
  """Encodes a value as JSON without escaping non-ASCII characters.

  Single surrogates stay escaped, because UTF-8 cannot hold them.
  """
  text = json.dumps(value, indent=indent, ensure_ascii=False, default=default)
  return text.encode("utf-8", "backslashreplace").decode("utf-8")


def encode_file(value: Any) -> bytes:
  """Returns the content of a JSON file, indented by two spaces."""
  return f"{encode(value, indent=2)}\n".encode()
