"""The packages that not everyone needs, setup.py's extras."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needed(what: str, extra: str) -> Iterator[None]:
  """Says what to install if an import within fails.

  Args:
    what: needs the package, as an error begins: "scoring entities".
    extra: of setup.py, which has the package.

  Raises:
    ImportError: names `what`, the package and the extra.
  """
  try:
    yield
  except ImportError as error:
    raise ImportError(
      f"{what} needs another package ({error}): pip install 'bert_tf[{extra}]'."
    ) from error
