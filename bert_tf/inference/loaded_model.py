"""The functions of a SavedModel or a checkpoint, ready to be called."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

# Registers the operations of SavedModels that take texts.
import tensorflow_text  # noqa: F401

from bert_tf import model_folder, modeling
from bert_tf.export import config as configs
from bert_tf.export import export, saved_models
from bert_tf.kernels import onednn_layer_norm
from bert_tf.model_folder import run_info

Specs = Mapping[str, tf.TensorSpec]


@dataclasses.dataclass(frozen=True)
class Function:
  """One function of a model; it may be called from several threads."""

  inputs: Specs  # Dtypes and shapes by name.
  # Takes and returns tensors by name.
  compute: Callable[..., Mapping[str, tf.Tensor]]
  # Returns dtypes and shapes of what `compute` returns.
  find_outputs: Callable[[], Specs]

  @functools.cached_property
  def outputs(self) -> Specs:
    """Dtypes and shapes of the outputs by name; a checkpoint is traced."""
    return self.find_outputs()

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
class LoadedModel:
  """A model and its functions."""

  functions: Mapping[str, Function]  # By the names of signatures.
  # What run.json says of the model; None without one.
  info: run_info.RunInfo | None
  version: int  # The number that its folder is named by, else 1.
  owner: Any  # Holds the variables and tables of the functions.
  num_parameters: int  # How many numbers its weights are.
  # The model's sizes and its vocabulary; None where it came without.
  bert_config: modeling.BertConfig | None = None
  vocab_file: str | None = None


def load(folder: str) -> LoadedModel:
  """Returns the functions of a SavedModel.

  Raises:
    ValueError: if it cannot be read, its weights are not finite, or
      export_savedmodel.py did not write it.
  """
  loaded = saved_models.load(folder)
  if not {saved_models.IDS, saved_models.TEXT} & set(loaded.signatures):
    raise ValueError(
      f"{folder} is no SavedModel of export_savedmodel.py: of its signatures, "
      f"{', '.join(loaded.signatures) or 'none'}, none is called "
      f"{saved_models.IDS} or {saved_models.TEXT}."
    )
  functions = {
    name: Function(
      function.structured_input_signature[1],
      function,
      functools.partial(getattr, function, "structured_outputs"),
    )
    for name, function in loaded.signatures.items()
  }
  name = os.path.basename(os.path.abspath(folder))
  version = int(name) if name.isdecimal() else 1
  files = model_folder.ModelFolder(folder)
  return LoadedModel(
    functions,
    run_info.read_run(folder),
    version,
    loaded,
    _num_parameters(saved_models.variables(loaded).values()),
    files.bert_config if model_folder.has_config(folder) else None,
    files.vocab_file,
  )


def build(config: configs.ModelConfig, with_attention: bool) -> LoadedModel:
  """Returns the functions that a SavedModel of a checkpoint would have.

  Raises:
    ValueError: as `export.build`.
  """
  built = export.build(config, with_attention=with_attention)
  functions = {n: function_of(f) for n, f in built.signatures.items()}
  return LoadedModel(
    functions,
    built.info,
    1,
    built.module,
    _num_parameters(built.module.variables),
    built.files.bert_config,
    built.vocab_file,
  )


def _num_parameters(weights: Iterable[Any]) -> int:
  return sum(int(np.prod(weight.shape)) for weight in weights)


def function_of(signature: Any) -> Function:
  """Returns a tf.function that has an input_signature; it is traced late."""

  def find_outputs() -> Specs:
    with onednn_layer_norm.fused():
      outputs = signature.get_concrete_function().structured_outputs
    return {
      name: tf.TensorSpec(output.shape, output.dtype, name)
      for name, output in outputs.items()
    }

  inputs = {spec.name: spec for spec in signature.input_signature}

  def compute(**tensors: tf.Tensor) -> Mapping[str, tf.Tensor]:
    # By position: a function may call its arguments otherwise.
    with onednn_layer_norm.fused():
      return signature(*(tensors[name] for name in inputs))

  return Function(inputs, compute, find_outputs)
