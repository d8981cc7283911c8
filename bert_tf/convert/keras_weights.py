"""Keras' form: the `.weights.h5` of this project's models."""

import math
from collections.abc import Mapping

import keras
import numpy as np

from bert_tf import heads, modeling
from bert_tf.convert import beside, pretrained
from bert_tf.convert import inspect as checkpoint_inspection
from bert_tf.files import atomic

_SUFFIX = ".weights.h5"

# The variables of a head that stand at the root of a file.
_ROOT = "vars/"


def read(path: str, given: beside.Given) -> pretrained.Pretrained:
  """Reads what `save_weights` wrote of one of this project's models.

  Args:
    path: of the file; bert_config.json stands beside it.
    given: what is not beside it.

  Raises:
    ValueError: if it is no such file, or of a model of another config.
  """
  _check_suffix(path)
  found = beside.read(path, given)
  shapes = checkpoint_inspection.open_tensors(path).shapes
  names = _heads_of(shapes)
  num_labels = shapes.get(f"{_ROOT}0", (0,))[0]
  labels_words = pretrained.is_of_words(found.task)
  model = build(found.config, names, num_labels, labels_words)
  _check_size(shapes, model, path)
  try:
    model.load_weights(path)
  except (ValueError, OSError, KeyError) as error:
    raise ValueError(
      f"{path} is not the weights of a {type(model).__name__} of its config: "
      f"{str(error).strip().splitlines()[0]}"
    ) from error
  return pretrained.Pretrained(
    config=found.config,
    tensors={v.path: np.asarray(v.numpy()) for v in model.weights},
    vocab=found.vocab,
    do_lower_case=given.do_lower_case,
    task=found.task,
  )


def write(model: pretrained.Pretrained, path: str) -> pretrained.Pretrained:
  """Writes what `load_weights` takes; config and vocabulary go beside it.

  Returns:
    What was written: with a next-sentence head, untrained, where there was a
    masked-LM head alone, since the pre-training model has both.

  Raises:
    ValueError: if path does not end in .weights.h5, if no model has the heads,
      or if another model's files stand beside it.
    OSError: if it cannot be written.
  """
  _check_suffix(path)
  model = _with_both_heads(model)
  beside.check(path, model)
  num_labels = len(model.tensors.get("output_bias", ()))
  keras_model = build(model.config, model.heads, num_labels, model.labels_words)
  for variable in keras_model.weights:
    variable.assign(model.tensors[variable.path])
  beside.write(path, model)
  with atomic.file(path) as unfinished:
    keras_model.save_weights(unfinished)
  return model


def build(
  config: modeling.BertConfig,
  names: tuple[str, ...],
  num_labels: int,
  labels_words: bool,
) -> keras.Model:
  """Returns the model for a checkpoint's heads.

  Args:
    config: sizes.
    names: of pretrained.HEADS.
    num_labels: of `output_weights`.
    labels_words: whether they are of words.

  Raises:
    ValueError: if there is none.
  """
  if names == ():
    return modeling.BertModel(config)
  if names == ("cls/predictions", "cls/seq_relationship"):
    return heads.PretrainingModel(config)
  if names == ("cls/squad",):
    return heads.SpanModel(config)
  if names == (pretrained.CHOICE_WEIGHTS,):
    return heads.MultipleChoiceModel(config)
  if names == ("output_weights",) and labels_words:
    return heads.TokenModel(config, num_labels)
  if names == ("output_weights",):
    return heads.ClassifierModel(config, num_labels)
  raise ValueError(f"no Keras model has just the heads {', '.join(names)}.")


def _with_both_heads(model: pretrained.Pretrained) -> pretrained.Pretrained:
  """Returns the model with a next-sentence head if it has the other alone."""
  if model.heads != ("cls/predictions",):
    return model
  return pretrained.with_drawn(model, "cls/seq_relationship")


def _check_suffix(path: str) -> None:
  if not path.endswith(_SUFFIX):
    raise ValueError(
      f"{path} does not end in {_SUFFIX}, which Keras asks of such files."
    )


def _heads_of(shapes: Mapping[str, pretrained.Shape]) -> tuple[str, ...]:
  """Returns which of pretrained.HEADS a file has."""
  at_root = [name for name in shapes if name.startswith(_ROOT)]
  if at_root:
    return (
      pretrained.CHOICE_WEIGHTS if len(at_root) == 1 else "output_weights",
    )
  return tuple(
    head
    for head in pretrained.HEADS
    if any(name.startswith(f"{head}/") for name in shapes)
  )


def _check_size(
  shapes: Mapping[str, pretrained.Shape], model: keras.Model, path: str
) -> None:
  """Raises ValueError if a file has more than the model."""
  num_values = sum(math.prod(shape) for shape in shapes.values())
  # Keras passes over what it has no place for.
  if num_values > model.count_params():
    raise ValueError(
      f"{path} has {num_values:,} numbers, but a {type(model).__name__} of its "
      f"config has {model.count_params():,}; give the model's "
      "--bert_config_file."
    )
