"""Keeps Keras from importing packages that no command needs of it.

Where they are installed, it imports matplotlib, OpenCV and Pillow for images,
scikit-learn for wrappers of its models, pandas for tables, IPython to show
files: a third of what importing TensorFlow takes.
"""

import importlib.abc
import sys
from collections.abc import Sequence

_HIDDEN = ("IPython", "PIL", "cv2", "matplotlib", "pandas", "sklearn")


class _Finder(importlib.abc.MetaPathFinder):
  """Finds none of these packages while Keras is imported."""

  def find_spec(
    self, fullname: str, path: Sequence[str] | None, target: object = None
  ) -> None:
    """Raises ModuleNotFoundError for them; leaves all else to others."""
    if fullname in _HIDDEN and _is_imported_by_keras():
      raise ModuleNotFoundError(f"Keras need not import {fullname}.")


def _is_imported_by_keras() -> bool:
  """Returns whether Keras' own import has begun and not ended."""
  keras = sys.modules.get("keras")
  return keras is not None and not hasattr(keras, "__version__")


def hide_what_keras_does_not_need() -> None:
  """Makes the first import of Keras, later in this process, a shorter one."""
  sys.meta_path.insert(0, _Finder())
