"""Lists the tensors of checkpoints and the differences between two."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from bert_tf.checkpoint import (
  checkpoint_names,
  checkpoints,
  hugging_face,
  weights,
)
from bert_tf.model import hugging_face_config


@dataclasses.dataclass(frozen=True)
class Row:
  """The properties of one tensor."""

  name: str  # Name in the file.
  shape: tuple[int, ...]
  dtype: str  # Name of the dtype, such as "float32".
  norm: float  # L2 norm.
  is_state: bool  # Whether it belongs to the training, such as a slot.


def open_tensors(path: str) -> hugging_face.Tensors:
  """Opens a model's folder, a checkpoint, or a file of Hugging Face.

  The names are those in the file, or in a checkpoint of TensorFlow the
  original's.

  Raises:
    ValueError: if it is not one of these files, or if it is damaged.
  """
  path = weights.find_weights(path)
  if hugging_face_config.is_weights(path):
    return hugging_face.open_file(path)
  reader = checkpoints.CheckpointReader(path)
  return hugging_face.Tensors(reader.path, reader.shapes, reader.get_any)


def rows(tensors: hugging_face.Tensors) -> Iterator[Row]:
  """Yields a Row for each numeric tensor, sorted by name."""
  model = set(checkpoint_names.parameters(tensors.shapes))
  for name in sorted(tensors.shapes):
    value = tensors.get(name)
    if isinstance(value, np.ndarray | np.generic) and _is_number(value):
      norm = float(np.linalg.norm(np.asarray(value, np.float64)))
      shape = tuple(np.shape(value))
      yield Row(name, shape, value.dtype.name, norm, name not in model)


def differences(
  first: hugging_face.Tensors, second: hugging_face.Tensors
) -> Iterator[str]:
  """Yields a line for each tensor that differs or that only one file has."""
  for name in sorted({*first.shapes, *second.shapes}):
    if name not in second.shapes:
      yield f"{name}: only in {first.path}"
    elif name not in first.shapes:
      yield f"{name}: only in {second.path}"
    elif text := _difference(first.get(name), second.get(name)):
      yield f"{name}: {text}"


def _difference(first: np.ndarray, second: np.ndarray) -> str | None:
  first, second = np.asarray(first), np.asarray(second)
  if first.shape != second.shape:
    return f"shape {first.shape} and {second.shape}"
  if first.dtype != second.dtype:
    return f"dtype {first.dtype} and {second.dtype}"
  if not _is_number(first):
    # The object graph of an object-based checkpoint.
    return None if np.array_equal(first, second) else "not the same"
  first, second = first.astype(np.float64), second.astype(np.float64)
  if np.array_equal(first, second, equal_nan=True):
    return None
  return f"max abs difference {np.abs(first - second).max():.6g}"


def _is_number(value: np.ndarray | np.generic) -> bool:
  # NumPy has no kind for bfloat16.
  return value.dtype.kind in "fiub" or value.dtype.name == "bfloat16"
