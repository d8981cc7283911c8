"""Finds the files of a model (`find`), loads its weights and its tokenizer.

`opening` imports TensorFlow, which takes seconds, so its names are imported
when they are first used. `run_info` and `letter_case` need no TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from bert_tf.model_folder.opening import ModelFolder as ModelFolder
  from bert_tf.model_folder.opening import find as find
  from bert_tf.model_folder.opening import (
    find_files_beside as find_files_beside,
  )
  from bert_tf.model_folder.opening import find_weights as find_weights
  from bert_tf.model_folder.opening import has_config as has_config
  from bert_tf.model_folder.opening import load as load
  from bert_tf.model_folder.opening import load_tokenizer as load_tokenizer
  from bert_tf.model_folder.opening import (
    read_hugging_face_run as read_hugging_face_run,
  )
  from bert_tf.model_folder.opening import read_run as read_run
  from bert_tf.model_folder.opening import resolve_case as resolve_case

_NAMES = (
  "ModelFolder",
  "find_files_beside",
  "find",
  "find_weights",
  "has_config",
  "load",
  "load_tokenizer",
  "read_hugging_face_run",
  "read_run",
  "resolve_case",
)


def __getattr__(name: str) -> Any:
  """Returns a public name after importing its module."""
  if name not in _NAMES:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
  return getattr(importlib.import_module(f"{__name__}.opening"), name)
