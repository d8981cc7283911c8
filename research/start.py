"""Starts a command of this folder, or says what to install for it."""

import importlib
import os
import sys
from contextlib import AbstractContextManager

from bert_tf.files import errors

# The extras of each command, a package in this folder.
_EXTRAS = {"ablations": "corpus,ner,plots", "benchmarks": "plots,serve"}


def needs_extras(name: str) -> AbstractContextManager[None]:
  """Returns a scope whose failed imports raise an error that says how to mend.

  Args:
    name: Package of the command in this folder.
  """
  return errors.needs_extra("this command", extra=_EXTRAS[name])


def run(name: str) -> None:
  """Runs the command of a package in this folder; never returns.

  Args:
    name: Package of the command in this folder.
  """
  try:
    with needs_extras(name):
      command = importlib.import_module(f"research.{name}.command")
  except ImportError as error:
    sys.exit(f"{os.path.basename(sys.argv[0])}: error: {error}")
  command.run()
