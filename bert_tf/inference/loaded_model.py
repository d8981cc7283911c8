"""The functions of a SavedModel or a checkpoint, ready to be called."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

# Registers the operations that SavedModels of texts are made of.
import tensorflow_text  # noqa: F401

from bert_tf import checkpoints
from bert_tf.export import export, saved_models


@dataclasses.dataclass(frozen=True)
class Function:
  """One function of a model; it may be called from several threads.

  Attributes:
    inputs: dtypes and shapes by name.
    outputs: the same of what it returns.
    compute: takes and returns tensors by name.
  """

  inputs: Mapping[str, tf.TensorSpec]
  outputs: Mapping[str, tf.TensorSpec]
  compute: Callable[..., Mapping[str, tf.Tensor]]

  def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs; texts are bytes, in arrays of objects.

    Raises:
      tf.errors.OpError: if the model refuses the inputs.
    """
    tensors = {
      name: tf.constant(inputs[name], spec.dtype)
      for name, spec in self.inputs.items()
    }
    outputs = self.compute(**tensors)
    return {name: tensor.numpy() for name, tensor in outputs.items()}

  def takes_texts(self) -> bool:
    """Returns whether all of its inputs are texts."""
    return all(spec.dtype == tf.string for spec in self.inputs.values())

  def has_batches(self) -> bool:
    """Returns whether the rows of several requests can be joined."""
    specs = [*self.inputs.values(), *self.outputs.values()]
    return all(
      spec.shape.rank and spec.shape.dims[0].value is None for spec in specs
    )


@dataclasses.dataclass(frozen=True)
class ServedModel:
  """A model and what it can be asked.

  Attributes:
    functions: by the names of signatures.
    version: the number that its folder is called after, else 1.
    owner: what holds the variables and tables of the functions.
  """

  functions: Mapping[str, Function]
  version: int
  owner: Any


def find_saved_model(path: str) -> str | None:
  """Returns the folder of the SavedModel at a path, None if there is none.

  Args:
    path: its folder, or one with a folder for each version, called 1, 2 ...,
      of which the newest is taken.
  """
  if checkpoints.is_saved_model(path):
    return path
  if not tf.io.gfile.isdir(path):
    return None
  names = [name.rstrip("/") for name in tf.io.gfile.listdir(path)]
  versions = [
    name
    for name in names
    if name.isdecimal() and checkpoints.is_saved_model(os.path.join(path, name))
  ]
  return os.path.join(path, max(versions, key=int)) if versions else None


def load(folder: str) -> ServedModel:
  """Returns the functions of a SavedModel.

  Raises:
    ValueError: if it cannot be read, or is one of something else.
  """
  try:
    loaded = tf.saved_model.load(folder)
  except (tf.errors.OpError, OSError) as error:
    raise ValueError(
      f"{folder} is no SavedModel that can be read: {error}"
    ) from error
  if not {saved_models.IDS, saved_models.TEXT} & set(loaded.signatures):
    raise ValueError(
      f"{folder} is no SavedModel of export_savedmodel.py: of its signatures, "
      f"{', '.join(loaded.signatures) or 'none'}, none is called "
      f"{saved_models.IDS} or {saved_models.TEXT}."
    )
  functions = {
    name: Function(
      function.structured_input_signature[1],
      function.structured_outputs,
      function,
    )
    for name, function in loaded.signatures.items()
  }
  name = os.path.basename(os.path.abspath(folder))
  return ServedModel(functions, int(name) if name.isdecimal() else 1, loaded)


def build(config: export.ExportConfig) -> ServedModel:
  """Returns the functions that a SavedModel of a checkpoint would have.

  Args:
    config: what `export.run` would be given; export_dir is not used.

  Raises:
    ValueError: as `export.build`.
  """
  _, module, signatures = export.build(config)
  functions = {name: _traced(f) for name, f in signatures.items()}
  return ServedModel(functions, 1, module)


def _traced(signature: Any) -> Function:
  """Returns a function of this process, traced once and for all."""
  concrete = signature.get_concrete_function()
  (specs, _) = concrete.structured_input_signature
  outputs = {
    name: tf.TensorSpec(output.shape, output.dtype, name)
    for name, output in concrete.structured_outputs.items()
  }
  return Function({spec.name: spec for spec in specs}, outputs, concrete)
