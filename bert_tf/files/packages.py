"""Optional packages, and the commands that install them."""

import contextlib
import importlib
import pathlib
import types
from collections.abc import Iterator
from importlib import metadata

from bert_tf.files import errors

# Root of the checkout, or the folder that contains the installed package.
_ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def needs_extra(purpose: str, extra: str) -> Iterator[None]:
  """Raises an ImportError of this scope with the command that helps."""
  try:
    yield
  except ImportError as error:
    raise ImportError(
      f"{purpose} needs another package ({error}): "
      f"{format_install_command(extra)}"
    ) from error


def import_tensorflow_text(purpose: str) -> types.ModuleType:
  """Imports tensorflow-text, which Windows and new versions of Python lack.

  Raises ImportError if it is missing or belongs to another TensorFlow.
  """
  import tensorflow as tf

  try:
    return importlib.import_module("tensorflow_text")
  except (ImportError, tf.errors.OpError) as error:
    requirement = tensorflow_text_requirement(tf.__version__)
    raise ImportError(
      f"{purpose} needs tensorflow-text ({errors.reason(error)}): pip install "
      f"'{requirement}'"
    ) from error


def tensorflow_text_requirement(version: str) -> str:
  """Returns the tensorflow-text for a version of TensorFlow, as pip reads it.

  2.21.0 cannot be imported: github.com/tensorflow/text/issues/1541.
  """
  return f"tensorflow-text=={'.'.join(version.split('.')[:2])}.*,!=2.21.0"


def format_install_command(extra: str) -> str:
  """Returns the command that installs an extra of this package.

  The name alone would install another project's package in a checkout.
  """
  if (_ROOT / "pyproject.toml").exists():
    return f"pip install -e '{_ROOT}[{extra}]'"
  required = metadata.requires("bert_tf") or []
  marked = [line.split(";") for line in required if ";" in line]
  names = [name.strip() for name, mark in marked if f'"{extra}"' in mark]
  return " ".join(["pip install", *(f"'{name}'" for name in names)])
