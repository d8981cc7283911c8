"""What tests read of a run: its log."""

import contextlib
import io
import logging as python_logging
from collections.abc import Callable, Iterator

from absl import logging


@contextlib.contextmanager
def logged() -> Iterator[Callable[[], str]]:
  """Yields a function that returns what was logged inside."""
  stream = io.StringIO()
  handler = python_logging.StreamHandler(stream)
  logger = logging.get_absl_logger()
  level = logger.level
  logger.addHandler(handler)
  logger.setLevel(python_logging.INFO)
  try:
    yield stream.getvalue
  finally:
    logger.removeHandler(handler)
    logger.setLevel(level)
