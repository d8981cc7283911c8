"""Loads the functions of a SavedModel or a checkpoint."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import model_folder, modeling
from bert_tf.export import config as configs
from bert_tf.export import export, saved_models
from bert_tf.kernels import onednn_layer_norm
from bert_tf.model_folder import run_info

Specs = Mapping[str, tf.TensorSpec]

# Text of `Function.sample`. Models that fill masks need a mask in it.
SAMPLE_TEXT = "A [MASK] text."
# Size of unknown dimensions in a sample. The first has size 1.
_SAMPLE_SIZE = 4


@dataclasses.dataclass(frozen=True)
class Function:
  """A function of a model; may be called from several threads."""

  inputs: Specs  # Dtypes and shapes by name.
  # Takes and returns tensors by name.
  compute: Callable[..., Mapping[str, tf.Tensor]]
  # Returns dtypes and shapes of what `compute` returns.
  find_outputs: Callable[[], Specs]

  @functools.cached_property
  def outputs(self) -> Specs:
    """Dtypes and shapes of the outputs by name.

    For a checkpoint, the first access traces the function.
    """
    return self.find_outputs()

  def __call__(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the outputs by name; texts are bytes in arrays of objects.

    Raises:
      tf.errors.OpError: if the model rejects the inputs.
    """
    tensors = {
      name: tf.constant(inputs[name], spec.dtype)
      for name, spec in self.inputs.items()
    }
    outputs = self.compute(**tensors)
    return {name: tensor.numpy() for name, tensor in outputs.items()}

  def sample(self) -> dict[str, np.ndarray]:
    """Returns made-up inputs of one row: SAMPLE_TEXT as bytes, and zeros."""
    arrays = {}
    for name, spec in self.inputs.items():
      sizes = spec.shape.as_list() if spec.shape.rank else [None]
      shape = [sizes[0] or 1, *(size or _SAMPLE_SIZE for size in sizes[1:])]
      arrays[name] = (
        np.full(shape, SAMPLE_TEXT.encode(), object)
        if spec.dtype == tf.string
        else np.zeros(shape, spec.dtype.as_numpy_dtype)
      )
    return arrays

  def takes_texts(self) -> bool:
    """Returns whether all inputs are texts."""
    return all(spec.dtype == tf.string for spec in self.inputs.values())

  def has_batches(self) -> bool:
    """Returns whether rows of several requests can form a batch."""
    specs = [*self.inputs.values(), *self.outputs.values()]
    return all(
      spec.shape.rank and spec.shape.dims[0].value is None for spec in specs
    )


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """A model and its functions."""

  functions: Mapping[str, Function]  # By signature name.
  info: run_info.RunInfo | None  # Content of run.json; None without one.
  version: int  # The name of the folder if it is a number, else 1.
  owner: Any  # Keeps the variables and tables of the functions alive.
  num_parameters: int
  # Sizes and vocabulary of the model; None if it has none.
  bert_config: modeling.BertConfig | None = None
  vocab_file: str | None = None


def load(folder: str) -> LoadedModel:
  """Loads the functions of a SavedModel.

  Raises:
    ValueError: if it cannot be read, has weights that are not finite, or was
      not written by export_savedmodel.py.
  """
  loaded = saved_models.load(folder)
  if not {saved_models.IDS, saved_models.TEXT} & set(loaded.signatures):
    raise ValueError(
      f"{folder} is not a SavedModel of export_savedmodel.py: it has the "
      f"signatures {', '.join(loaded.signatures) or '(none)'}, but neither "
      f"{saved_models.IDS} nor {saved_models.TEXT}."
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
  """Builds the functions that a SavedModel of a checkpoint would have.

  Raises:
    ValueError: as `export.build`.
  """
  built = export.build(config, with_attention=with_attention)
  functions = {n: wrap_function(f) for n, f in built.signatures.items()}
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


def wrap_function(signature: Any) -> Function:
  """Wraps a tf.function with an input_signature, without tracing it yet."""

  def find_outputs() -> Specs:
    with onednn_layer_norm.fused():
      outputs = signature.get_concrete_function().structured_outputs
    return {
      name: tf.TensorSpec(output.shape, output.dtype, name)
      for name, output in outputs.items()
    }

  inputs = {spec.name: spec for spec in signature.input_signature}

  def compute(**tensors: tf.Tensor) -> Mapping[str, tf.Tensor]:
    # By position, because the names of the arguments may differ.
    with onednn_layer_norm.fused():
      return signature(*(tensors[name] for name in inputs))

  return Function(inputs, compute, find_outputs)
