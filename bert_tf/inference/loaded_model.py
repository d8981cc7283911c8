"""Loads the functions of a SavedModel or a checkpoint."""

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import modeling, tokenization
from bert_tf.export import config as configs
from bert_tf.export import export, saved_models
from bert_tf.files import errors, paths
from bert_tf.layers import layer_norm
from bert_tf.model_folder import run_info

Specs = Mapping[str, tf.TensorSpec]


@dataclasses.dataclass(frozen=True)
class Function:
  """A function of a model on ids; may be called from several threads."""

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

  def __call__(
    self, inputs: Mapping[str, np.ndarray], names: Collection[str] = ()
  ) -> dict[str, np.ndarray]:
    """Returns the outputs with these names, or all.

    Raises ValueError if the model rejects an input.
    """
    tensors = {
      name: tf.constant(inputs[name], spec.dtype)
      for name, spec in self.inputs.items()
    }
    try:
      outputs = self.compute(**tensors)
    except tf.errors.InvalidArgumentError as error:
      raise ValueError(errors.reason(error)) from error
    return {name: outputs[name].numpy() for name in names or outputs}


@dataclasses.dataclass(frozen=True)
class LoadedModel:
  """A model and its functions."""

  functions: Mapping[str, Function]  # `ids`, and `attention` if available.
  version: int  # The name of the folder if it is a number, else 1.
  owner: Any  # Keeps the variables of the functions alive.
  num_parameters: int
  # What run.json says, with the user's settings; None without one.
  info: run_info.RunInfo | None = None
  # Sizes, vocabulary and tokenizer of the model; None if it has none.
  bert_config: modeling.BertConfig | None = None
  vocab_file: str | None = None
  tokenizer: tokenization.FullTokenizer | None = None


def load(config: configs.ModelConfig) -> LoadedModel:
  """Loads the functions on ids of a SavedModel.

  Raises:
    ValueError: if it cannot be read, has weights that are not finite, was not
      written by `bert-tf export`, or is of another task.
  """
  folder = config.init_checkpoint
  loaded = saved_models.load(folder)
  functions = {
    name: Function(
      function.structured_input_signature[1],
      function,
      functools.partial(getattr, function, "structured_outputs"),
    )
    for name in (saved_models.IDS, saved_models.ATTENTION)
    if (function := loaded.signatures.get(name))
  }
  name = os.path.basename(os.path.abspath(folder))
  version = int(name) if name.isdecimal() else 1
  num_parameters = _num_parameters(saved_models.variables(loaded).values())
  model = LoadedModel(functions, version, loaded, num_parameters)
  needed = (run_info.RUN_FILE, run_info.CONFIG_FILE)
  if not all(paths.exists(os.path.join(folder, name)) for name in needed):
    return model
  files = config.open()
  assert files.saved
  if config.task not in (None, files.saved.task):
    raise ValueError(f"{folder} is a SavedModel of {files.saved.task}.")
  return dataclasses.replace(
    model,
    info=files.info,
    bert_config=files.config,
    vocab_file=files.vocab_file,
    tokenizer=files.tokenizer,
  )


def build(config: configs.ModelConfig) -> LoadedModel:
  """Builds the functions that a SavedModel of a checkpoint would have."""
  built = export.build(config, with_text=False, with_attention=True)
  return LoadedModel(
    {name: wrap_function(f) for name, f in built.signatures.items()},
    1,
    built.module,
    _num_parameters(built.module.variables),
    built.files.info,
    built.files.config,
    built.files.vocab_file,
    built.files.tokenizer,
  )


def _num_parameters(weights: Iterable[Any]) -> int:
  return sum(int(np.prod(weight.shape)) for weight in weights)


def wrap_function(signature: Any) -> Function:
  """Wraps a tf.function with an input_signature, without tracing it yet."""

  def find_outputs() -> Specs:
    with layer_norm.fused():
      outputs = signature.get_concrete_function().structured_outputs
    return {
      name: tf.TensorSpec(output.shape, output.dtype, name)
      for name, output in outputs.items()
    }

  inputs = {spec.name: spec for spec in signature.input_signature}

  def compute(**tensors: tf.Tensor) -> Mapping[str, tf.Tensor]:
    # By position, because the names of the arguments may differ.
    with layer_norm.fused():
      return signature(*(tensors[name] for name in inputs))

  return Function(inputs, compute, find_outputs)
