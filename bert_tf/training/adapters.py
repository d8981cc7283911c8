"""LoRA adapters: small checkpoints with only the variables that LoRA trained.

An adapter holds A and B of each projection, lora_alpha and the variables above
BERT. All other variables stay in the checkpoint that training started from,
which an adapter recognises by checksums of its projection kernels.
"""

import os
import zlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import distribution
from bert_tf.checkpoint import checkpoint_names, checkpoints, run_info
from bert_tf.files import paths
from bert_tf.model.layers import lora

# Path of the adapter in the folder of a run.
_PATH = os.path.join("adapter", "lora.ckpt")


def save_adapter(output_dir: str, tensors: Mapping[str, tf.Tensor]) -> None:
  """Writes the adapter of a run with LoRA, from its checkpoint's tensors."""
  if lora.ALPHA not in tensors or not distribution.is_chief():
    return
  head = [n for n in checkpoint_names.parameters(tensors) if n[:5] != "bert/"]
  updates = [n for n in tensors if n.endswith((lora.A, lora.B))]
  checksums = {
    scope + lora.CHECKSUM: _checksum(tensors[scope + lora.BASE])
    for scope in lora.adapted(tensors)
  }
  checkpoints.write(
    os.path.join(output_dir, _PATH),
    {name: tensors[name] for name in [*head, *updates, lora.ALPHA]} | checksums,
  )


def open_adapter(path: str) -> checkpoints.CheckpointReader:
  """Opens an adapter, given by its prefix or by the output_dir of its run."""
  if paths.is_folder(path):
    path = os.path.join(path, _PATH)
  reader = checkpoints.CheckpointReader(path)
  has_checksums = any(name.endswith(lora.CHECKSUM) for name in reader.shapes)
  if lora.ALPHA not in reader.shapes or not has_checksums:
    raise ValueError(
      f"{path} is not an adapter, since it lacks {lora.ALPHA} or checksums."
    )
  return reader


def find_run(path: str) -> run_info.RunInfo | None:
  """The run that trained an adapter; None if it is unknown."""
  folder = path
  if not paths.is_folder(path):
    folder, name = os.path.split(os.path.dirname(path))
    if name != os.path.dirname(_PATH):
      return None  # The adapter was copied out of its run's folder.
  return run_info.read_run(folder or ".")


def add_adapter(
  model: keras.Model, path: str, encoder_only: bool = False
) -> list[str]:
  """Adds an adapter's updates to a model's kernels and loads its head.

  The model has the values that the adapter was trained from. With
  `encoder_only`, its head stays as it is. Returns the names of the head's
  variables that were loaded.
  """
  reader = open_adapter(path)
  variables = {v.path: v for v in model.weights}
  kernels: dict[str, Any] = {
    scope: variables.get(f"{scope}/kernel")
    for scope in lora.adapted(reader.shapes)
  }
  for scope, kernel in kernels.items():
    checksum = reader.get(scope + lora.CHECKSUM)
    if kernel is None or _checksum(kernel.value) != checksum:
      raise ValueError(
        f"{reader.path} was trained from another `init_checkpoint`, which "
        f"differs in {scope}/kernel."
      )
  head = () if encoder_only else checkpoint_names.parameters(reader.shapes)
  for name in head:
    variables[name].assign(reader.get(name))
  alpha = float(reader.get(lora.ALPHA))
  for scope, kernel in kernels.items():
    a, b = reader.get(scope + lora.A), reader.get(scope + lora.B)
    kernel.assign_add(alpha / a.shape[1] * (a @ b))
  return list(head)


def _checksum(kernel: Any) -> np.int64:
  value = tf.convert_to_tensor(kernel).numpy()
  return np.int64(zlib.crc32(value.astype("<f4").tobytes()))
