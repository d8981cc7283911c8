"""Prepares a command's import of Keras.

Checks that Keras' backend is installed. Keeps Keras on TensorFlow from
importing packages that no command needs of it: it imports, if they are
installed, matplotlib, OpenCV and Pillow for images, scikit-learn for wrappers
of its models, pandas for tables, IPython to show files. They take a third of
the time of importing TensorFlow.
"""

import importlib.abc
import sys
from collections.abc import Sequence

from bert_tf.kernels import backend

_HIDDEN = ("IPython", "PIL", "cv2", "matplotlib", "pandas", "sklearn")


class _Finder(importlib.abc.MetaPathFinder):
  """Checks the backend before Keras is imported, and hides packages from it."""

  def find_spec(
    self, fullname: str, path: Sequence[str] | None, target: object = None
  ) -> None:
    """Raises an error for a module that must not be imported."""
    if fullname == "keras":
      backend.check_installed()
    elif fullname in _HIDDEN and _is_imported_by_keras():
      raise ModuleNotFoundError(f"Keras need not import {fullname}.")


def _is_imported_by_keras() -> bool:
  """Returns whether the import of Keras on TensorFlow has begun, not ended.

  Other backends may need the hidden packages.
  """
  keras = sys.modules.get("keras")
  if keras is None or hasattr(keras, "__version__"):
    return False
  return backend.name() == "tensorflow"


def prepare() -> None:
  """Affects the first import of Keras later in this process."""
  sys.meta_path.insert(0, _Finder())
