"""A BERT model independent of file formats, and the files beside its weights.

Every format is read into a `Pretrained` and written from one.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf import modeling, task_registry
from bert_tf.checkpoint import (
  checkpoint_names,
  checkpoints,
  run_info,
  sentence_transformers,
)
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.files import json_files, messages, paths, tokenizer_files
from bert_tf.model import heads

Shape = tuple[int, ...]

_FLOATS = ("bfloat16", "float16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Pretrained:
  """A model: config, tensors, task, labels and vocabulary."""

  config: modeling.BertConfig
  # float32 arrays of encoder, pooler and heads, by the original's names.
  tensors: Mapping[str, np.ndarray]
  # The task, the labels and the settings of the tokenizer, if known.
  run: run_info.RunInfo
  vocab_file: str | None
  # The files of a sentence encoder, by path, which give its pooling.
  encoder_files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

  @property
  def own_heads(self) -> tuple[heads.Head, ...]:
    """The heads that the model has tensors for."""
    return heads.find_heads(self.tensors, self.run.task)

  @property
  def num_labels(self) -> int:
    """The number of outputs of `output_weights`; 0 without this head."""
    return len(self.tensors.get("output_bias", ()))


@dataclasses.dataclass(frozen=True)
class Place:
  """The name and shape that a tensor of the original has in another format.

  The values are transposed, or in the same order in another shape.
  """

  name: str
  shape: Shape
  is_transposed: bool = False

  def to_original(self, value: np.ndarray, shape: Shape) -> np.ndarray:
    """Converts a tensor of the format to the original's, float32."""
    value = value.T if self.is_transposed else value.reshape(shape)
    return np.ascontiguousarray(value, np.float32)

  def from_original(self, value: np.ndarray) -> np.ndarray:
    """Converts a tensor of the original; returns the format's."""
    value = value.T if self.is_transposed else value.reshape(self.shape)
    return np.ascontiguousarray(value)


def read(files: ModelFolder) -> Pretrained:
  """Reads a checkpoint in the original's or Hugging Face's format.

  An optimizer's slots and step are left out.
  """
  reader = files.reader
  names = checkpoint_names.parameters(files.shapes)
  assert reader
  file_tensors = {name: reader.get(name) for name in names}
  tensors = collect_tensors(file_tensors, find_shapes(files), reader.path)
  return build(files, files.saved, tensors)


def write(model: Pretrained, path: str) -> None:
  """Writes a checkpoint of the original, and the other files beside it."""
  write_files(os.path.dirname(path) or ".", model)
  checkpoints.write(path, model.tensors)


def find_shapes(files: ModelFolder) -> dict[str, Shape]:
  """The shapes that a model's config and heads imply, by name."""
  num_labels = files.shapes.get("output_bias", (0,))[0]
  return compute_shapes(files.config, files.heads, num_labels)


def collect_tensors(
  file_tensors: Mapping[str, np.ndarray],
  shapes: Mapping[str, Shape],
  path: str,
  place_of: Callable[[str, Shape], Place] = Place,
) -> dict[str, np.ndarray]:
  """Converts the tensors of a file to the original's.

  A warning names other tensors, which are left out.

  Args:
    file_tensors: all tensors of the file, by the file's names.
    shapes: shapes of the model's tensors, by the original's names.
    path: path of the file, for messages.
    place_of: returns a tensor's place from the original's name and shape.

  Raises:
    ValueError: if tensors are missing, or have a wrong shape or dtype.
  """
  remaining = dict(file_tensors)
  tensors, faults = {}, []
  for name, shape in shapes.items():
    place = place_of(name, shape)
    value = remaining.pop(place.name, None)
    if value is None:
      faults.append(f"{place.name} is missing")
    elif value.shape != place.shape or value.dtype.name not in _FLOATS:
      faults.append(
        f"{place.name} is {value.dtype} of {value.shape}, not a float of "
        f"{place.shape}"
      )
    else:
      tensors[name] = place.to_original(value, shape)
  if faults:
    faults += [f"{name} is not in this model" for name in sorted(remaining)]
    raise ValueError(f"the tensors of {path} do not fit: {'; '.join(faults)}.")
  warn_of_left_out(path, remaining)
  return tensors


def warn_of_left_out(path: str, names: Collection[str]) -> None:
  """Warns of tensors that are not converted."""
  if names:
    left_out = messages.join_names(sorted(names))
    logging.warning("%s: BERT has no %s, so they are left out.", path, left_out)


def compute_shapes(
  config: modeling.BertConfig,
  own_heads: Collection[heads.Head],
  num_labels: int = 0,
) -> dict[str, Shape]:
  """The shapes of all tensors by the original's names."""
  with tf.Graph().as_default():  # Names and shapes only: no memory.
    weights = modeling.BertModel(config).weights
  sizes = {"D": config.hidden_size, "V": config.vocab_size, "C": num_labels}
  return {v.path: tuple(v.shape) for v in weights} | {
    name: tuple(sizes[n] if isinstance(n, str) else n for n in shape)
    for head in own_heads
    for name, shape in head.shapes.items()
  }


def build(
  files: ModelFolder,
  run: run_info.RunInfo | None,
  tensors: Mapping[str, np.ndarray],
) -> Pretrained:
  """Makes a model from its tensors and the files beside them.

  Its task is the one that the heads among the tensors belong to, and `run` is
  what is known about it.

  Raises:
    ValueError: if the user's do_lower_case contradicts the vocabulary, or if
      the head has another number of labels.
  """
  run = run or run_info.RunInfo(task="encoder")
  if files.vocab_file:
    tokenizer_files.warn_of_differing(files.vocab_file)
  settings = dataclasses.replace(run.settings, **vars(files.case))
  run = dataclasses.replace(run, settings=settings)
  if (
    run.task in task_registry.TASKS
  ):  # Else only the user knows the head's task.
    kind = heads.find_model(heads.find_heads(tensors, run.task), run.task)
    task = task_registry.TASKS[kind.task] if kind else task_registry.ENCODER
    labels = run.labels if task.label_defaults else None
    run = dataclasses.replace(run, task=task.name, labels=labels)
  encoder_files = sentence_transformers.read_files(files.folder)
  model = Pretrained(
    files.config, tensors, run, files.vocab_file, encoder_files
  )
  if run.labels and run.labels.num_outputs != model.num_labels:
    raise ValueError(
      f"{len(run.labels.labels)} labels are saved beside {files.weights}, but "
      f"its head has {model.num_labels} outputs."
    )
  return model


def write_files(folder: str, model: Pretrained) -> None:
  """Writes run.json, the config and other known files beside the weights.

  Raises:
    ValueError: if the folder has files of another model.
  """
  vocab = model.vocab_file and tokenizer_files.read_vocab(model.vocab_file)
  contents = run_info.describe(model.run, model.config, vocab or None)
  write_contents(folder, {**model.encoder_files, **contents})


def write_contents(folder: str, contents: Mapping[str, bytes]) -> None:
  """Writes files beside the weights, by name; raises as `write_files`."""
  check_contents(folder, contents)
  run_info.write_files(folder, contents)


def check_contents(folder: str, contents: Mapping[str, bytes]) -> None:
  """Raises ValueError if a file of the folder exists with other content."""
  for name, content in contents.items():
    path = os.path.join(folder, name)
    if not paths.exists(path) or (there := paths.read_bytes(path)) == content:
      continue
    keys: list[str] = []
    if name.endswith(".json"):  # Equal values may be written differently.
      old, new = (json_files.parse(text, path) for text in (there, content))
      if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in sorted({*old, *new}) if old.get(k) != new.get(k)]
      if old == new or keys == ["bert_tf_version"]:
        continue
    differs = f" ({messages.join_names(keys)} differ)" if keys else ""
    raise ValueError(
      f"{path} belongs to another model{differs}; choose another "
      "`output_checkpoint`."
    )
