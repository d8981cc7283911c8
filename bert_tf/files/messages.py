"""Parts of messages for users."""

import difflib
import re
from collections.abc import Iterable, Sequence


def join_names(names: Sequence[str], num_shown: int = 20) -> str:
  """Joins the first names for a message, and counts the rest."""
  num_left = len(names) - num_shown
  shown = ", ".join(names[:num_shown])
  return f"{shown} and {num_left} more" if num_left > 0 else shown


def did_you_mean(
  word: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6
) -> str:
  """Returns a hint at the names that resemble a wrong one; "" if none does.

  Names that contain all of its parts, such as text_a_column for text_column,
  resemble it more than those with many of its letters.
  """
  parts = set(re.split("[-_]+", word.strip("-")))
  names = sorted(names)
  close = [n for n in names if parts <= set(re.split("[-_]+", n))]
  close = close or difflib.get_close_matches(word, names, most, cutoff)
  return f" Did you mean {' or '.join(close)}?" if close else ""


def shorten(text: str, size: int = 80) -> str:
  """Cuts a text for a message to `size` characters."""
  return text if len(text) <= size else f"{text[: size - 3]}..."


def printable(text: str) -> str:
  """Escapes the control characters of a text for a terminal.

  A label or a name in a file could otherwise control the terminal.
  """
  return re.sub(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", text
  )
