"""The original's format: name-based checkpoints."""

import os

from bert_tf import checkpoints, model_folder
from bert_tf.convert import model_files, pretrained


def read(source: model_files.Source) -> pretrained.Pretrained:
  """Reads a checkpoint, without an optimizer's slots and step.

  Raises:
    ValueError: if it is missing or damaged, or its tensors are not those of
      its config: names all of them.
  """
  reader = checkpoints.CheckpointReader(model_folder.find_weights(source.path))
  files = model_files.read(source, reader.path)
  names = checkpoints.parameters(reader.shapes)
  task = files.run.task if files.run else "encoder"
  shapes = pretrained.shapes_of(
    files.config,
    pretrained.heads_of(names, task),
    reader.shapes.get("output_bias", (0,))[0],
  )
  tensors = pretrained.collect(
    {name: reader.get(name) for name in names},
    shapes,
    reader.path,
  )
  return model_files.describe(source, files, tensors)


def write(model: pretrained.Pretrained, path: str) -> pretrained.Pretrained:
  """Writes a checkpoint and the files that belong beside it.

  Raises:
    ValueError: if another model's files lie beside it.
    OSError: if it cannot be written.
  """
  model_files.write(os.path.dirname(path) or ".", model)
  checkpoints.write(path, model.tensors)
  return model
