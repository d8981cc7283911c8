"""Rows of the report of `bert-tf doctor`."""

from typing import NamedTuple

OK, MISSING, WARNING, ERROR = "ok", "missing", "warning", "error"


class Row(NamedTuple):
  """A line of the report.

  Attributes:
    status: OK; MISSING for a package that only some commands need; WARNING;
      ERROR if training cannot work.
    name: the thing that was checked.
    text: what was found.
    mend: what to do, with a command if there is one.
  """

  status: str
  name: str
  text: str
  mend: str = ""

  def __str__(self) -> str:
    mend = f": {self.mend}" if self.mend else ""
    return f"{self.status:9}{self.name:17}{self.text}{mend}"


def ok(name: str, text: str) -> Row:
  """Returns the row of a check that passed."""
  return Row(OK, name, text)


def missing(name: str, text: str, mend: str) -> Row:
  """Returns the row of an extra that is not installed."""
  return Row(MISSING, name, text, mend)


def warning(name: str, text: str, mend: str = "") -> Row:
  """Returns the row of a fault that does not prevent training."""
  return Row(WARNING, name, text, mend)


def error(name: str, text: str, mend: str = "") -> Row:
  """Returns the row of a fault that prevents training."""
  return Row(ERROR, name, text, mend)
