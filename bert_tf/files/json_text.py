"""Encodes values as readable JSON that UTF-8 can hold."""

import json
from collections.abc import Callable
from typing import Any


def encode(
  value: Any,
  indent: int | None = None,
  default: Callable[[Any], Any] | None = None,
) -> str:
  """Returns a value as JSON without escaping non-ASCII characters.

  Single surrogates stay escaped, because UTF-8 cannot hold them. The arguments
  are those of `json.dumps`.
  """
  text = json.dumps(value, indent=indent, ensure_ascii=False, default=default)
  return text.encode("utf-8", "backslashreplace").decode("utf-8")
