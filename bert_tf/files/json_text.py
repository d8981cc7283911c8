"""Writes values as JSON that people can read and UTF-8 can hold."""

import json
from collections.abc import Callable
from typing import Any


def encode(
  value: Any,
  indent: int | None = None,
  default: Callable[[Any], Any] | None = None,
) -> str:
  """Returns a value as JSON with its characters as they are.

  Half a surrogate pair stays escaped, as in the JSON that it came from: UTF-8
  cannot hold it. The arguments are those of `json.dumps`.
  """
  text = json.dumps(value, indent=indent, ensure_ascii=False, default=default)
  return text.encode("utf-8", "backslashreplace").decode("utf-8")
