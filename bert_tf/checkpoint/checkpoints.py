"""Checkpoints in the original release's format, under its variable names.

A checkpoint is a name-based bundle, as TF 1's Saver wrote: `PREFIX.index` and
`PREFIX.data-00000-of-00001`. A training checkpoint also has each trained
variable's `/adam_m` and `/adam_v`, and `global_step`, int64.
"""

import glob
import os
import re
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf import distribution
from bert_tf.checkpoint import (
  checkpoint_names,
  download,
  hugging_face,
  model_garden,
  run_info,
)
from bert_tf.checkpoint.checkpoint_names import Tensors
from bert_tf.files import atomic, errors, messages, paths, text_lines
from bert_tf.model import hugging_face_config
from bert_tf.model.layers import lora

GLOBAL_STEP = checkpoint_names.GLOBAL_STEP
# Key of the object graph in an object-based checkpoint, such as a SavedModel's.
# The graph maps the names of variables to keys.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Models for ONNX and LiteRT, which `bert-tf export` writes beside a run.json.
RUNTIME_FILES = ("model.onnx", "model.tflite")

RELEASED = "bert_model.ckpt"  # The prefix in the folders of 2018.

_LIST_FILE = "checkpoint"
_INDEX = ".index"
_DATA = ".data-00000-of-00001"


class CheckpointReader:
  """Reads the tensors of a model, whatever its format.

  Args:
    path: a model in any form; see `find_weights`.
    keeps_names: whether to read Hugging Face's files as they are, under their
      own names. They need not hold a BERT then.

  Attributes:
    path: the prefix, the folder of the SavedModel or the file.
    format: "original", "hf" for Hugging Face, or "model_garden".
    shapes: shapes of the tensors, by the original's variable names.
    untrained: names of tensors with random values, since the file lacks them.
    labels_words: whether a head is known to label words, not texts.

  Raises:
    ValueError: if there is no such model, or more than one, or for a file of
      another runtime, which has no tensors to read.
    DamagedFileError: if the index or the header cannot be read.
  """

  def __init__(self, path: str, keeps_names: bool = False) -> None:
    path = find_weights(path)
    if is_runtime_file(path):
      raise ValueError(
        f"{path} can only predict. Give the model that it was exported from."
      )
    if not hugging_face_config.is_weights(path):
      tensors = _open_tensorflow(path)
    elif keeps_names:
      tensors = hugging_face.open_file(path)
    else:
      tensors = hugging_face.open_model(path)
    self.path, self.format = tensors.path, tensors.format
    self.shapes, self.untrained = tensors.shapes, tensors.untrained
    self.labels_words, self._read = tensors.labels_words, tensors.get

  def get(self, name: str) -> np.ndarray:
    """Returns one tensor; raises as `get_any` and `check_finite`."""
    value = self.get_any(name)
    check_finite(self.path, {name: value})
    return value

  def get_floats(self, name: str) -> np.ndarray:
    """Returns a tensor of floats; raises as `get`, or ValueError for others."""
    value = self.get(name)
    if not tf.as_dtype(value.dtype).is_floating:
      raise ValueError(
        f"{name} of {self.path} holds {value.dtype} instead of floats; save "
        "the model without quantization."
      )
    return value

  def get_any(self, name: str) -> np.ndarray:
    """Returns one tensor; raises DamagedFileError for damaged data."""
    with errors.reading(self.path):
      return self._read(name)


def _open_tensorflow(path: str) -> Tensors:
  """Opens a checkpoint or a SavedModel; raises as CheckpointReader."""
  prefix, is_export = find_prefix(path), is_saved_model(path)
  with errors.reading(path):
    reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    sizes = reader.get_variable_to_shape_map()
    shapes = {key: tuple(size) for key, size in sizes.items()}
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    if OBJECT_GRAPH in shapes:
      graph.ParseFromString(reader.get_tensor(OBJECT_GRAPH))
    keys = {checkpoint_names.from_key(key): key for key in shapes}
    if is_export:
      keys = {
        attribute.full_name: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.full_name
      }
    tensors = None
    if checkpoint_names.WORD_EMBEDDINGS not in keys:
      tensors = model_garden.open_model(path, graph, shapes, reader.get_tensor)
    return tensors or Tensors(
      path,
      {name: shapes[key] for name, key in keys.items()},
      lambda name: reader.get_tensor(keys[name]),
    )


def check_finite(path: str, tensors: Mapping[str, np.ndarray]) -> None:
  """Raises DamagedFileError for tensors with NaN or infinite values."""
  for name, value in tensors.items():
    is_float = tf.as_dtype(np.asarray(value).dtype).is_floating
    if is_float and not np.isfinite(value).all():
      raise errors.DamagedFileError(
        f"{path} holds values that are not finite, in {name}: its training had "
        "diverged."
      )


def find_prefix(path: str) -> str:
  """Returns the prefix of the files of a checkpoint or a SavedModel.

  Raises DamagedFileError if there are none.
  """
  if is_saved_model(path):
    return os.path.join(path, "variables", "variables")
  if not exists(path):
    raise errors.DamagedFileError(f"There is no {path}{_INDEX}.")
  return path


def find_weights(path: str) -> str:
  """Returns the file, the prefix or the SavedModel with a model's weights.

  Args:
    path: the prefix of a checkpoint, without `.index`; a file of Hugging Face's
      weights, of ONNX or of LiteRT; the name of a downloaded model; or a folder
      with one model, such as that of a run, whose newest checkpoint counts, of
      a SavedModel, or of versions of a SavedModel.

  Raises:
    ValueError: if there is no such model, or more than one.
  """
  path = download.resolve_model(path)
  folder = run_info.get_folder(path)
  if paths.is_file(path):
    has_run = paths.exists(os.path.join(folder, run_info.RUN_FILE))
    can_predict = has_run and is_runtime_file(path)
    if can_predict or hugging_face_config.is_weights(path):
      return path
    form = text_lines.name_format(paths.read_bytes(path, 64))
    fault = f"it is {form}. " if form else ""
    raise ValueError(f"{path} is not a model: {fault}{_advise([path])}")
  if folder != path:
    find_prefix(path)  # Raises if there is no checkpoint.
    return path
  names = paths.list_folder(path)
  # The folder, else the newest version below it.
  versions = sorted(filter(str.isdecimal, names), key=int, reverse=True)
  saved_models = [path, *(os.path.join(path, version) for version in versions)]
  models = list(filter(is_saved_model, saved_models))[:1]
  if newest := find_latest(path):
    models.append(newest)
  else:
    prefixes = [n.removesuffix(".index") for n in names if n.endswith(".index")]
    models += [os.path.join(path, prefix) for prefix in prefixes]
  theirs = list(filter(hugging_face_config.is_weights, names))
  if hugging_face.WEIGHTS in theirs or models:  # Others are copies of it.
    theirs = [name for name in theirs if name == hugging_face.WEIGHTS]
  models += [os.path.join(path, name) for name in theirs]
  if run_info.RUN_FILE in names and not models:
    runtime_files = filter(is_runtime_file, names)
    models = [os.path.join(path, name) for name in runtime_files]
  if len(models) == 1:
    return models[0]
  if models:
    raise ValueError(f"{path} holds several models: {', '.join(models)}.")
  raise ValueError(f"{path} holds no model that can be read: {_advise(names)}")


def hash_weights(path: str) -> str:
  """Returns a SHA-256 of a model's weights, in hexadecimal digits.

  Hashes only the index of a TensorFlow checkpoint, which has a checksum per
  tensor. A safetensors file has none, so all of it is hashed.
  """
  weights = find_weights(path)
  if not hugging_face_config.is_weights(weights):
    weights = f"{find_prefix(weights)}.index"
  return paths.sha256(weights)


def _advise(files: Sequence[str]) -> str:
  names = [os.path.basename(path) for path in files]
  found = f"there is {messages.join_names(names, 10) or 'nothing'}"
  if any(path.endswith((".keras", ".weights.h5")) for path in files):
    return f"{found}. Load it with Keras and call its `save_pretrained`."
  if "pytorch_model.bin" in names:
    return (
      f"{found}. Have transformers write it as model.safetensors: "
      "AutoModelForPreTraining.from_pretrained(FOLDER).save_pretrained(NEW)"
    )
  return (
    f"{found}. A model is a checkpoint with bert_config.json, the output_dir "
    "of a run, a SavedModel, or model.safetensors or tf_model.h5 of "
    "transformers' save_pretrained."
  )


def is_runtime_file(path: str) -> bool:
  """Returns whether a path is a model for ONNX or LiteRT."""
  return os.path.basename(path) in RUNTIME_FILES


def is_saved_model(path: str) -> bool:
  """Whether there is a SavedModel in a folder."""
  return paths.exists(os.path.join(path, "saved_model.pb"))


def write(path: str, tensors: Mapping[str, tf.Tensor | np.ndarray]) -> None:
  """Writes tensors by name; replaces an older checkpoint of the same path.

  Both files are complete before the first is replaced. A process that is killed
  between the two leaves a checkpoint that readers refuse. If the checkpoint
  cannot be written, OSError is raised and an older one remains.
  """
  names = sorted(tensors)
  try:
    with atomic.hidden_folder(path) as folder:
      prefix = os.path.join(folder, os.path.basename(path))
      tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(map(checkpoint_names.to_key, names)),
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
      )
      # The index is last: readers ignore a checkpoint without an index.
      for suffix in (_DATA, _INDEX):
        atomic.publish(prefix + suffix, path + suffix)
  except (OSError, tf.errors.OpError) as error:
    raise OSError(
      f"could not write the checkpoint {path}: {errors.reason(error)}."
    ) from error


def save(
  output_dir: str,
  tensors: Mapping[str, tf.Tensor | np.ndarray],
  keep_checkpoint_max: int,
) -> str:
  """Writes `model.ckpt-STEP` and the `checkpoint` list; returns the prefix.

  Only the chief writes. Deletes all but the newest keep_checkpoint_max
  checkpoints in output_dir; 0 keeps all.
  """
  # int() does not take a variable with several replicas.
  step = int(tf.convert_to_tensor(tensors[GLOBAL_STEP]))
  path = os.path.join(output_dir, f"model.ckpt-{step}")
  if not distribution.is_chief():
    return path
  write(path, tensors)
  # TensorFlow 1's list may name files of other folders, which stay.
  oldest_first = reversed(list_checkpoints(output_dir))
  own = [p for p in oldest_first if p == _own(output_dir, p) and p != path]
  prefixes = [*own, path]
  old = prefixes[:-keep_checkpoint_max] if keep_checkpoint_max else []
  names = [os.path.basename(path) for path in prefixes[len(old) :]]
  lines = [f'model_checkpoint_path: "{names[-1]}"']
  lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
  atomic.write_lines(os.path.join(output_dir, _LIST_FILE), lines)
  for prefix in old:
    # Without an index, readers ignore the rest. TensorFlow 1 also wrote .meta.
    for suffix in (_INDEX, _DATA, ".meta"):
      paths.remove(prefix + suffix)
  return path


def list_checkpoints(output_dir: str) -> list[str]:
  """The prefixes that the `checkpoint` file lists, newest first.

  TensorFlow 1 lists absolute paths. A checkpoint with the same name in this
  folder takes precedence, in case it was moved. If the file is corrupt, all
  checkpoints in the folder count.
  """
  try:
    state = tf.train.get_checkpoint_state(output_dir)
  except (ValueError, tf.errors.OpError):  # Empty, or not text.
    state = None
  if state and state.model_checkpoint_path:
    prefixes = [*state.all_model_checkpoint_paths, state.model_checkpoint_path]
    own = ((path, _own(output_dir, path)) for path in reversed(prefixes))
    newest_first = (b if exists(b) or not exists(a) else a for a, b in own)
    return list(dict.fromkeys(newest_first))
  if not paths.exists(os.path.join(output_dir, _LIST_FILE)):
    return []
  indexes = paths.matches(os.path.join(glob.escape(output_dir), f"*-*{_INDEX}"))
  prefixes = [p.removesuffix(_INDEX) for p in indexes]
  numbered = [p for p in prefixes if p.rpartition("-")[2].isdecimal()]
  return sorted(numbered, key=lambda p: -int(p.rpartition("-")[2]))


def _own(output_dir: str, path: str) -> str:
  """output_dir/NAME, for the base name of a POSIX or Windows path."""
  return os.path.join(output_dir, re.split(r"[/\\]", path)[-1])


def exists(path: str) -> bool:
  """Whether a checkpoint exists."""
  return paths.exists(path + _INDEX)


def find_latest(output_dir: str) -> str | None:
  """The prefix of a run's newest checkpoint; None without one."""
  return next(iter(list_checkpoints(output_dir)), None)


def load_variables(
  reader: CheckpointReader,
  model: keras.Model,
  required: str = "",
  prefix: str = "",
) -> list[str]:
  """Sets the model's variables to tensors; returns the names of those not set.

  Other tensors, such as optimizer slots, are ignored, as in the original. Only
  variables whose names begin with `prefix` are set; those that begin with
  `required` must be there.

  Raises:
    ValueError: names variables that are missing or differ in shape.
    DamagedFileError: if the checkpoint cannot be read completely.
  """
  lora.reset(model)  # The checkpoint's kernels contain the updates already.
  variables = {
    v.path: v for v in model.weights if checkpoint_names.parameters([v.path])
  }
  loaded = {n: v for n, v in variables.items() if n.startswith(prefix)}
  missing = [name for name in loaded if name not in reader.shapes]
  needed = [name for name in missing if name.startswith(required)]
  checkpoint_names.check_fits(reader.path, reader.shapes, loaded, needed)
  for name in loaded.keys() - missing:
    loaded[name].assign(reader.get_floats(name))
  names = checkpoint_names.parameters(reader.shapes)
  if unused := checkpoint_names.unused(names, variables):
    # With a wrong config, the model may have only some of the trained layers.
    logging.warning("%s also holds %s, unlike the model.", reader.path, unused)
  return [n for n in variables if n not in loaded or n in missing]
