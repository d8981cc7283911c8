"""Reads and writes Keras' `.weights.h5` files of this package's models."""

import math
import os
import shutil
import zipfile
from collections.abc import Mapping

import numpy as np

from bert_tf.checkpoint import run_info
from bert_tf.checkpoint import weights as weights_lib
from bert_tf.checkpoint.convert import inspect, pretrained
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import atomic, errors
from bert_tf.model import heads

SUFFIXES = (weights_lib.KERAS_SUFFIX,)

# Prefix of the variables of a head at the model's root: vars/0 and vars/1.
_ROOT = "vars/"


def read(files: ModelFolder) -> pretrained.Pretrained:
  """Reads what `save_weights` of one of this package's models wrote."""
  path = str(files.weights)
  shapes = inspect.open_tensors(path).shapes
  own_heads = _find_heads(shapes, files.saved)
  num_labels = shapes.get(f"{_ROOT}0", (0,))[0]
  config = files.config.without_random_values()
  model = heads.build_model(_kind(own_heads), config, num_labels)
  kind = type(model).__name__
  num_values = sum(map(math.prod, shapes.values()))
  # Keras ignores values that the model lacks.
  if num_values > model.count_params():
    raise ValueError(
      f"{path} holds {num_values:,} numbers, but a {kind} with this config "
      f"has {model.count_params():,}."
    )
  with errors.reading(path, f"has no weights of a {kind} with this config"):
    model.load_weights(path)
  tensors = {v.path: np.asarray(v.numpy()) for v in model.weights}
  return pretrained.build(files, files.saved, tensors)


def write(model: pretrained.Pretrained, path: str) -> None:
  """Writes a file that `load_weights` reads, and the files beside it."""
  if not path.endswith(SUFFIXES):
    raise ValueError(
      f"{path} does not end in {SUFFIXES[0]}, which Keras requires."
    )
  config = model.config.without_random_values()
  keras_model = heads.build_model(
    _kind(model.own_heads), config, model.num_labels
  )
  for variable in keras_model.weights:
    variable.assign(model.tensors[variable.path])
  pretrained.write_files(os.path.dirname(path) or ".", model)
  with atomic.file(path) as unfinished:
    # HDF5 ends the process if it cannot write, for instance on a full disk.
    # Keras makes the weights of a `.keras` archive in memory.
    archive = os.path.join(os.path.dirname(unfinished), "model.keras")
    keras_model.save(archive)
    with zipfile.ZipFile(archive) as opened, open(unfinished, "wb") as writer:
      with opened.open("model.weights.h5") as weights:
        shutil.copyfileobj(weights, writer)


def _kind(own_heads: tuple[heads.Head, ...]) -> type[heads.HeadModel] | None:
  kind = heads.find_model(own_heads)
  if own_heads and not kind:
    names = ", ".join(head.name for head in own_heads)
    raise ValueError(f"no Keras model has exactly the heads {names}.")
  return kind


def _find_heads(
  shapes: Mapping[str, pretrained.Shape], run: run_info.RunInfo | None
) -> tuple[heads.Head, ...]:
  num_at_root = sum(name.startswith(_ROOT) for name in shapes)
  if num_at_root == 1:
    return (heads.CHOICES,)
  if num_at_root:
    task = run.task if run else None
    return heads.find_heads(heads.TEXT_LABELS.shapes, task)
  # Keras names the other heads after their classes.
  layers = {name.split("/")[1] for name in shapes if name.count("/") > 2}
  if "masked_lm_head" in layers:
    return heads.PretrainingModel.heads
  return heads.SpanModel.heads if "linear_head" in layers else ()
