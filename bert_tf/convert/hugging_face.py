"""Hugging Face's format: the folder that `save_pretrained` writes.

It has config.json, model.safetensors, vocab.txt, tokenizer_config.json and
tokenizer.json.
"""

import dataclasses
import os
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from bert_tf import heads, model_folder
from bert_tf.convert import (
  hugging_face_config,
  pretrained,
)
from bert_tf.files import atomic, errors, paths
from bert_tf.formats import hugging_face, tokenizer_files
from bert_tf.model_folder import run_info


def read(source: pretrained.Source) -> pretrained.Pretrained:
  """Reads what `save_pretrained` wrote of a BERT model and its tokenizer.

  Raises:
    ValueError: if a file is missing, the weights are pickled, the config asks
      for another model, or tensors are missing or odd (names all of them).
    ImportError: without the package safetensors.
  """
  weights = model_folder.find_weights(source.path)
  if not weights.endswith(hugging_face.SUFFIX):
    raise ValueError(
      f"{weights} is not Hugging Face's; leave `from=hf` out, or give the "
      "folder that save_pretrained wrote."
    )
  files = pretrained.open_files(source, weights, needs_vocab=True)
  reader = hugging_face.Reader(weights)
  shapes = reader.get_variable_to_shape_map()
  task = hugging_face.task_of(hugging_face.read_config(files.folder))
  own_heads = pretrained.heads_of(shapes, task)
  num_labels = shapes.get("output_weights", (0,))[0]
  tensors = pretrained.collect(
    {name: reader.get_tensor(name) for name in shapes},
    pretrained.shapes_of(files.bert_config, own_heads, num_labels),
    weights,
  )
  task = pretrained.task_of(own_heads)
  model = pretrained.describe(
    source,
    files,
    files.read_hugging_face_run(task, num_labels),
    tensors,
    tokenizer_files.TOKENIZER_CONFIG,
  )
  return dataclasses.replace(model, notes=(*reader.notes, *model.notes))


def write(model: pretrained.Pretrained, folder: str) -> pretrained.Pretrained:
  """Writes the folder that `from_pretrained` takes, of the class for the heads.

  The folder is made; it may hold what an earlier run wrote of the same model.

  Raises:
    ValueError: if the model has no vocabulary or heads that no class there has,
      or if the folder holds anything else.
    ImportError: without the package safetensors.
  """
  texts = hugging_face_config.texts(model)
  _check_folder(folder, texts)
  # transformers refuses files that do not say whose layout they have.
  data = _safetensors().save(_tensors_there(model), metadata={"format": "pt"})
  pretrained.write_files(folder, model)
  for name, text in texts.items():
    atomic.write(os.path.join(folder, name), [text])
  atomic.write_bytes(os.path.join(folder, hugging_face.WEIGHTS), data)
  return model


def _tensors_there(model: pretrained.Pretrained) -> dict[str, np.ndarray]:
  """Returns the tensors of a model by the names of the file."""
  # A model without a head is saved without the encoder's prefix.
  prefix = "bert." if model.own_heads else ""
  tensors = {
    hugging_face.key_of(name, prefix): np.ascontiguousarray(
      value.T if name.endswith("/kernel") else value
    )
    for name, value in model.tensors.items()
  }
  if heads.CHOICES in model.own_heads:
    tensors[hugging_face.CHOICE_BIAS] = np.zeros(1, np.float32)
  return tensors


def _safetensors() -> ModuleType:
  """Returns the module that reads and writes NumPy arrays."""
  with errors.needs_extra(hugging_face.WEIGHTS, extra="hf"):
    from safetensors import numpy
  return numpy


def _check_folder(folder: str, texts: Mapping[str, str]) -> None:
  """Raises ValueError if the folder holds anything but the same model."""
  if paths.is_file(folder):
    raise ValueError(
      f"{folder} is a file; give a folder for `output_checkpoint`."
    )
  if not paths.exists(folder):
    return
  own = {*texts, hugging_face.WEIGHTS, *run_info.FILES}
  others = sorted(set(paths.list_folder(folder)) - own)
  if others:
    raise ValueError(
      f"{folder} already holds {', '.join(others)}, which the model's loader "
      "could take for its own; choose an empty folder for `output_checkpoint`."
    )
  for name, text in texts.items():
    pretrained.check_content(os.path.join(folder, name), text.encode())
