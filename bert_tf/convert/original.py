"""Reads and writes the original's format, name-based checkpoints."""

import os
from collections.abc import Sequence

import numpy as np

from bert_tf import checkpoint_names, checkpoints, model_folder
from bert_tf.convert import pretrained
from bert_tf.model_folder import run_info


def read(source: pretrained.ModelSource) -> pretrained.Pretrained:
  """Reads a checkpoint, without an optimizer's slots and step.

  Raises:
    ValueError: if the checkpoint is damaged or does not fit its config.
  """
  weights = model_folder.find_weights(source.path)
  files = pretrained.open_files(source, weights)
  return pretrained.read_checkpoint(source, files)


def write(model: pretrained.Pretrained, path: str) -> pretrained.Pretrained:
  """Writes a checkpoint, and run.json, config and vocabulary beside it.

  Raises:
    ValueError: if files of another model are beside it.
  """
  pretrained.write_files(os.path.dirname(path) or ".", model)
  checkpoints.write(path, model.tensors)
  return model


def average(prefixes: Sequence[str], averaged_path: str) -> None:
  """Writes a checkpoint with the means of several, without optimizer slots.

  Leaves out variables that the config beside the first does not imply.

  Raises:
    ValueError: if a checkpoint is missing or damaged, or lacks a variable.
  """
  readers = [checkpoints.CheckpointReader(prefix) for prefix in prefixes]
  first = readers[0]
  names = checkpoint_names.parameters(first.shapes)
  folder = run_info.get_folder(first.path)
  has_config = model_folder.has_config(folder)
  if checkpoint_names.WORD_EMBEDDINGS in names and has_config:
    files = model_folder.read_beside(first.path)
    shapes = pretrained.find_shapes(files)
    pretrained.warn_of_left_out(first.path, set(names) - shapes.keys())
    names = [name for name in names if name in shapes]
  means = {}
  for name in names:
    # In float64, the mean of equal values is exactly this value.
    values = [reader.get(name) for reader in readers]
    mean = np.sum(values, axis=0, dtype=np.float64) / len(readers)
    means[name] = mean.astype(values[0].dtype)
  checkpoints.write(averaged_path, means)
