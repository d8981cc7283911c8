"""Results of attacks, and their table."""

import collections
import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass
class Outcome:
  """Results of one attack."""

  attack: str  # The attack's name in the table.
  # Number of tries per good result, by its name in the table.
  counts: collections.Counter[str] = dataclasses.field(
    default_factory=collections.Counter
  )
  # A line for each try that lost something, was wrong or ended in a traceback.
  faults: list[str] = dataclasses.field(default_factory=list)

  def add(self, result: str, fault: str = "") -> None:
    """Counts one try, which went wrong if there is a fault."""
    if fault:
      self.faults.append(fault)
    else:
      self.counts[result] += 1

  @property
  def tries(self) -> int:
    """Returns the number of tries."""
    return self.counts.total() + len(self.faults)


def table(outcomes: Sequence[Outcome], date: str) -> str:
  """Returns a Markdown table of attacks, tries, results and date."""
  lines = ["| attack | tries | result | date |", "|---|---|---|---|"]
  for outcome in outcomes:
    results = [
      f"{count:,} {name}" for name, count in sorted(outcome.counts.items())
    ]
    results.append(f"{len(outcome.faults)} wrong")
    row = (outcome.attack, f"{outcome.tries:,}", ", ".join(results), date)
    lines.append(f"| {' | '.join(row)} |")
  return "\n".join(lines) + "\n"
