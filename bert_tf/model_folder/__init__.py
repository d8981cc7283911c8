"""Reads a model (`read`), loads its weights and its tokenizer.

`opening` imports TensorFlow, which takes seconds, so its names are imported
when they are first used. `run_info` and `letter_case` need no TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from bert_tf.model_folder.opening import *  # noqa: F403

_NAMES = (
  "ModelFolder",
  "read_beside",
  "find_weights",
  "has_config",
  "hash_weights",
  "load",
  "load_tokenizer",
  "read",
  "read_run",
  "save",
)


def __getattr__(name: str) -> Any:
  if name not in _NAMES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(f"{__name__}.opening"), name)
