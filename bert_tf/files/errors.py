"""Errors as a user should read them: missing extras, damaged files."""

import contextlib
import pathlib
import re
from collections.abc import Iterator, Sequence
from importlib import metadata

# Of a checkout; of an installed package the folder that it was installed in.
_ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def needs_extra(purpose: str, extra: str) -> Iterator[None]:
  """Says what to install if an import inside the scope fails.

  `purpose`, what needs the package, begins a sentence: "scoring entities".

  Raises:
    ImportError: names `purpose`, the package and the command that installs it.
  """
  try:
    yield
  except ImportError as error:
    raise ImportError(
      f"{purpose} needs another package ({error}): {_install_line(extra)}"
    ) from error


class DamagedFileError(ValueError):
  """A file or folder that the library for its format cannot read."""


@contextlib.contextmanager
def reading(
  path: str, fault: str = "is damaged or only half there"
) -> Iterator[None]:
  """Raises what a library raises while it reads a file as one line.

  TensorFlow, HDF5 and safetensors raise nearly anything for a damaged file,
  IndexError, RuntimeError and SystemError included.

  Args:
    path: of what is read.
    fault: follows the path in the message.

  Raises:
    DamagedFileError: names the path and the reason.
    OSError: if the system cannot open a file; names it.
  """
  try:
    yield
  except (DamagedFileError, ImportError):
    raise
  except Exception as error:
    if isinstance(error, OSError) and error.filename:
      raise
    why = reason(error).rstrip(".") or type(error).__name__
    raise DamagedFileError(f"{path} {fault}: {why}.") from error


def _install_line(extra: str) -> str:
  """Returns what installs an extra: of the checkout, or its packages."""
  if (_ROOT / "pyproject.toml").exists():
    return f"pip install -e '{_ROOT}[{extra}]'"
  required = metadata.requires("bert_tf") or []
  marked = [line.split(";") for line in required if ";" in line]
  names = [name.strip() for name, mark in marked if f'"{extra}"' in mark]
  return " ".join(["pip install", *(f"'{name}'" for name in names)])


def listed(names: Sequence[str], num_shown: int = 20) -> str:
  """Joins names for a message, leaving out those past the first 20."""
  more = len(names) - num_shown
  shown = ", ".join(names[:num_shown])
  return f"{shown} and {more} more" if more > 0 else shown


def shortened(text: str, size: int = 80) -> str:
  """Returns a text for a message, cut where it is long."""
  return text if len(text) <= size else f"{text[: size - 3]}..."


def reason(error: Exception) -> str:
  """Returns what went wrong in an error of TensorFlow, in one line.

  An assertion's own words if there are any, else the first line, without
  where in the graph it happened and the name of the operation.
  """
  message = str(error)
  assertion = re.search(r"assertion failed: \[(.*?)\]", message, re.DOTALL)
  if assertion:
    return assertion[1]
  line = (message.strip().splitlines() or [""])[0]
  return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\].*$", "", line)
