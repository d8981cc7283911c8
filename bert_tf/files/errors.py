"""Errors as a user should read them: a missing extra, TensorFlow's messages."""

import contextlib
import re
from collections.abc import Iterator


@contextlib.contextmanager
def needs_extra(purpose: str, extra: str) -> Iterator[None]:
  """Says what to install if an import inside the scope fails.

  Args:
    purpose: what needs the package, as a sentence begins: "scoring entities".
    extra: name of the extra in setup.py that has the package.

  Raises:
    ImportError: names `purpose`, the package and the extra.
  """
  try:
    yield
  except ImportError as error:
    raise ImportError(
      f"{purpose} needs another package ({error}): "
      f"pip install 'bert_tf[{extra}]'."
    ) from error


def reason(error: Exception) -> str:
  """Returns what went wrong in an error of TensorFlow, in one line.

  An assertion's own words if there are any, else the first line, without
  where in the graph it happened and the name of the operation.
  """
  message = str(error)
  assertion = re.search(r"assertion failed: \[(.*?)\]", message, re.DOTALL)
  if assertion:
    return assertion[1]
  line = (message.splitlines() or [""])[0]
  return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\].*$", "", line)
