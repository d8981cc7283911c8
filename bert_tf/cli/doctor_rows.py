"""Rows of the report of `bert-tf doctor`."""

import functools
from typing import NamedTuple

OK, MISSING, WARNING, ERROR = "ok", "missing", "warning", "error"


class Row(NamedTuple):
  """A line of the report.

  Attributes:
    status: OK; MISSING for a package that only some commands need; WARNING;
      ERROR if training cannot work.
    name: the thing that was checked.
    text: the result of the check.
    mend: advice, with a command if there is one.
  """

  status: str
  name: str
  text: str
  mend: str = ""

  def __str__(self) -> str:
    mend = f": {self.mend}" if self.mend else ""
    return f"{self.status:9}{self.name:17}{self.text}{mend}"


ok = functools.partial(Row, OK)
missing = functools.partial(Row, MISSING)
warning = functools.partial(Row, WARNING)
error = functools.partial(Row, ERROR)
