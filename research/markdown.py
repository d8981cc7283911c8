"""Markdown of the reports."""

import math
from collections.abc import Sequence

from run_scripts import sweep

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


def format_mean(values: Sequence[float]) -> str:
  """Returns the mean of the seeds with their sample standard deviation."""
  mean, spread = sweep.mean_and_spread(values)
  if math.isnan(spread):
    return f"{mean:.1f} (one seed)"
  return f"{mean:.1f} {_PLUS_MINUS} {spread:.1f}"
