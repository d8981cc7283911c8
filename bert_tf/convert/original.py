"""Reads and writes the original's format, name-based checkpoints."""

import os
from collections.abc import Sequence

import numpy as np

from bert_tf import checkpoint_names, checkpoints, model_folder, modeling
from bert_tf.convert import pretrained


def read(source: pretrained.ModelSource) -> pretrained.Pretrained:
  """Reads a checkpoint, without an optimizer's slots and step.

  Raises:
    ValueError: if the checkpoint is missing or damaged, or if its tensors do
      not fit its config; names all of them.
  """
  reader = checkpoints.CheckpointReader(model_folder.find_weights(source.path))
  names = checkpoint_names.parameters(reader.shapes)
  checkpoint_names.check_is_bert(reader.path, names)
  files = pretrained.open_files(source, reader.path)
  shapes = _model_shapes(
    reader, files.bert_config, files.run.task if files.run else "encoder"
  )
  tensors = pretrained.collect_tensors(
    {name: reader.get(name) for name in names},
    shapes,
    reader.path,
  )
  return pretrained.build(source, files, files.run, tensors)


def _model_shapes(
  reader: checkpoints.CheckpointReader, config: modeling.BertConfig, task: str
) -> pretrained.Shapes:
  """Returns the shapes of the encoder's and the heads' variables by name."""
  names = checkpoint_names.parameters(reader.shapes)
  num_labels = reader.shapes.get("output_bias", (0,))[0]
  return pretrained.compute_shapes(
    config, pretrained.find_heads(names, task), num_labels
  )


def write(model: pretrained.Pretrained, path: str) -> pretrained.Pretrained:
  """Writes a checkpoint, and run.json, config and vocabulary beside it.

  Raises:
    ValueError: if files of another model are beside it.
    OSError: if the checkpoint cannot be written.
  """
  pretrained.write_files(os.path.dirname(path) or ".", model)
  checkpoints.write(path, model.tensors)
  return model


def average(prefixes: Sequence[str], averaged_path: str) -> None:
  """Writes a checkpoint with the means of several, without optimizer slots.

  The config beside the first checkpoint decides which variables belong to the
  model. A warning names other variables, which are left out.

  Raises:
    ValueError: if a checkpoint is missing or damaged, or if their variables
      differ.
  """
  readers = [checkpoints.CheckpointReader(prefix) for prefix in prefixes]
  first = readers[0]
  names = checkpoint_names.parameters(first.shapes)
  for reader in readers[1:]:
    differing = [
      name
      for name in {*names, *checkpoint_names.parameters(reader.shapes)}
      if first.shapes.get(name) != reader.shapes.get(name)
    ]
    if differing:
      raise ValueError(
        f"{reader.path} and {first.path} belong to different models: they "
        f"differ in {', '.join(sorted(differing))}."
      )
  means = {}
  for name in _names_to_write(first, names):
    # In float64, the mean of equal values is exactly this value.
    values = [reader.get(name) for reader in readers]
    mean = np.sum(values, axis=0, dtype=np.float64) / len(readers)
    means[name] = mean.astype(values[0].dtype)
  checkpoints.write(averaged_path, means)


def _names_to_write(
  reader: checkpoints.CheckpointReader, names: Sequence[str]
) -> Sequence[str]:
  """Returns the names that belong to the model, and warns of others.

  Returns all names if there is no config, or if the checkpoint is not a BERT.
  """
  files = model_folder.ModelFolder(reader.path)
  is_bert = checkpoint_names.WORD_EMBEDDINGS in names
  if not is_bert or not model_folder.has_config(files.folder):
    return names
  shapes = _model_shapes(
    reader, files.bert_config, files.run.task if files.run else "encoder"
  )
  pretrained.warn_of_left_out(reader.path, set(names) - shapes.keys())
  return [name for name in names if name in shapes]
