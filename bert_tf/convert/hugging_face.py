"""Reads and writes Hugging Face's format, the folder of `save_pretrained`.

The folder has config.json, model.safetensors, vocab.txt, tokenizer_config.json
and tokenizer.json.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping
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


def read(source: pretrained.ModelSource) -> pretrained.Pretrained:
  """Reads a folder that `save_pretrained` wrote for a BERT and its tokenizer.

  Raises:
    ValueError: if a file is missing, if the weights are pickled, if the config
      is another model's, or if tensors do not fit (names all of them).
    ImportError: without the package safetensors.
  """
  weights = model_folder.find_weights(source.path)
  if not weights.endswith(hugging_face.SUFFIX):
    raise ValueError(
      f"{weights} is not in Hugging Face's format; leave `from=hf` out, or "
      "give the folder that save_pretrained wrote."
    )
  files = pretrained.open_files(source, weights, needs_vocab=True)
  reader = hugging_face.Reader(weights)
  shapes = reader.get_variable_to_shape_map()
  task = hugging_face.find_task(hugging_face.read_config(files.folder))
  own_heads = pretrained.find_heads(shapes, task)
  num_labels = shapes.get("output_weights", (0,))[0]
  tensors = pretrained.collect_tensors(
    {name: reader.get_tensor(name) for name in shapes},
    pretrained.compute_shapes(files.bert_config, own_heads, num_labels),
    weights,
  )
  task = pretrained.find_task(own_heads)
  model = pretrained.build(
    source,
    files,
    files.read_hugging_face_run(task, num_labels),
    tensors,
    tokenizer_files.TOKENIZER_CONFIG,
  )
  return dataclasses.replace(model, notes=(*reader.notes, *model.notes))


def write(model: pretrained.Pretrained, folder: str) -> pretrained.Pretrained:
  """Writes a folder that `from_pretrained` of Hugging Face's classes can load.

  config.json names the class with the same heads. Creates the folder if
  necessary. The folder may hold an earlier conversion of the same model.

  Raises:
    ValueError: if the model has no vocabulary, if no class of transformers has
      its heads, or if the folder holds other files.
    ImportError: without the package safetensors.
  """
  texts = hugging_face_config.texts(model)
  encoder_files = {name.split("/")[0] for name in model.encoder_files}
  _check_folder(folder, texts, encoder_files)
  # transformers refuses files without this key.
  data = _safetensors().save(_rename_tensors(model), metadata={"format": "pt"})
  pretrained.write_files(folder, model)
  for name, text in texts.items():
    atomic.write(os.path.join(folder, name), [text])
  atomic.write_bytes(os.path.join(folder, hugging_face.WEIGHTS), data)
  return model


def _rename_tensors(model: pretrained.Pretrained) -> dict[str, np.ndarray]:
  """Returns the tensors by Hugging Face's names, with kernels transposed."""
  # transformers omits the encoder's prefix if a model has no head.
  prefix = "bert." if model.own_heads else ""
  tensors = {
    hugging_face.hugging_face_name(name, prefix): np.ascontiguousarray(
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


def _check_folder(
  folder: str, texts: Mapping[str, str], encoder_files: Collection[str]
) -> None:
  """Raises ValueError if the folder holds anything but the same model."""
  if paths.is_file(folder):
    raise ValueError(
      f"{folder} is a file; give a folder for `output_checkpoint`."
    )
  if not paths.exists(folder):
    return
  own = {*texts, hugging_face.WEIGHTS, *run_info.FILES, *encoder_files}
  others = sorted(set(paths.list_folder(folder)) - own)
  if others:
    raise ValueError(
      f"{folder} holds other files: {', '.join(others)}. transformers might "
      "load them with the model; choose an empty folder for "
      "`output_checkpoint`."
    )
  for name, text in texts.items():
    pretrained.check_content(os.path.join(folder, name), text.encode())
