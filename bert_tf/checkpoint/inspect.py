"""Lists the tensors of checkpoints and the differences between two."""

from collections.abc import Iterator

import numpy as np

from bert_tf.checkpoint import checkpoint_names
from bert_tf.checkpoint.checkpoints import CheckpointReader


def describe(reader: CheckpointReader) -> Iterator[str]:
  """Yields a line for each numeric tensor, sorted by name, and totals."""
  model = set(checkpoint_names.parameters(reader.shapes))
  sizes: dict[bool, list[int]] = {True: [], False: []}  # Of model and training.
  for name in sorted(reader.shapes):
    value = np.asarray(reader.get_any(name))
    if _is_number(value):
      shape = "x".join(map(str, value.shape)) or "scalar"
      norm = float(np.linalg.norm(value.astype(np.float64)))
      yield f"{name}  {shape}  {value.dtype.name}  norm {norm:.6g}"
      sizes[name in model].append(value.size)
  of_model, of_training = sizes[True], sizes[False]
  yield (
    f"{reader.path}: {sum(of_model):,} parameters in {len(of_model)} tensors"
  )
  if of_training:
    yield (
      f"and {sum(of_training):,} values of the optimizer and step in "
      f"{len(of_training)}"
    )


def differences(
  first: CheckpointReader, second: CheckpointReader
) -> Iterator[str]:
  """Yields a line for each tensor that differs or that only one file has."""
  for name in sorted({*first.shapes, *second.shapes}):
    if name not in second.shapes:
      yield f"{name}: only in {first.path}"
    elif name not in first.shapes:
      yield f"{name}: only in {second.path}"
    elif text := _difference(first.get_any(name), second.get_any(name)):
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


def _is_number(value: np.ndarray) -> bool:
  # NumPy has no kind for bfloat16.
  return value.dtype.kind in "fiub" or value.dtype.name == "bfloat16"
