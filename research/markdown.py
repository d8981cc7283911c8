"""Markdown of the reports."""

import math
from collections.abc import Sequence

_PLUS_MINUS = "\N{PLUS-MINUS SIGN}"


def format_table(
  header: Sequence[str], table_rows: Sequence[Sequence[str]]
) -> str:
  """Returns a Markdown table; all columns but the first are right-aligned."""
  alignment = ["---", *["--:"] * (len(header) - 1)]
  lines = []
  for cells in (header, alignment, *table_rows):
    escaped = " | ".join(cell.replace("|", "\\|") for cell in cells)
    lines.append(f"| {escaped} |")
  return "\n".join(lines)


def format_mean(mean: float, spread: float) -> str:
  """Returns a mean with its spread, which is NaN for one seed."""
  if math.isnan(spread):
    return f"{mean:.1f} (one seed)"
  return f"{mean:.1f} {_PLUS_MINUS} {spread:.1f}"
