"""Starts a command of this folder; names missing packages."""

import importlib
import os
import sys
from contextlib import AbstractContextManager

from bert_tf.files import packages

# Extras of bert_tf that each command needs, by its package in this folder.
_EXTRAS = {
  "ablations": "corpus,ner,plots",
  "benchmarks": "plots,serve",
  "reproduction": "ner,plots",
}


def needs_extras(name: str) -> AbstractContextManager[None]:
  """Returns a context in which a failed import names the extras to install.

  Args:
    name: package of the command in this folder.
  """
  return packages.needs_extra("this command", extra=_EXTRAS[name])


def run(name: str) -> None:
  """Runs the command of a package in this folder; never returns.

  Args:
    name: package of the command in this folder.
  """
  try:
    with needs_extras(name):
      command = importlib.import_module(f"research.{name}.command")
  except ImportError as error:
    sys.exit(f"{os.path.basename(sys.argv[0])}: error: {error}")
  command.run()
