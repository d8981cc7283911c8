"""Checkpoints in the original release's format, under its variable names.

A checkpoint is a name-based bundle, as TF 1's Saver wrote: `PREFIX.index` and
`PREFIX.data-00000-of-00001`. A training checkpoint also has each trained
variable's `/adam_m` and `/adam_v`, and `global_step`, int64.
"""

import glob
import os
import re
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow.core.protobuf import trackable_object_graph_pb2

from bert_tf import distribution
from bert_tf.checkpoint import checkpoint_names, hugging_face, model_garden
from bert_tf.files import atomic, errors, paths
from bert_tf.model import hugging_face_config
from bert_tf.model.layers import lora

GLOBAL_STEP = checkpoint_names.GLOBAL_STEP
# Key of the object graph in an object-based checkpoint, such as a SavedModel's.
# The graph maps the names of variables to keys.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Models for ONNX and LiteRT, which `bert-tf export` writes beside a run.json.
RUNTIME_FILES = ("model.onnx", "model.tflite")

_LIST_FILE = "checkpoint"
_INDEX = ".index"
_DATA = ".data-00000-of-00001"


# A checkpoint that is missing or cannot be read completely.
DamagedCheckpointError = errors.DamagedFileError


class CheckpointReader:
  """Reads the tensors of a model, whatever its format.

  Args:
    path: a prefix, without `.index`; the folder of a run, whose newest
      checkpoint is read; the folder of a SavedModel; or a file of Hugging
      Face's weights, see `hugging_face.open_model`.

  Attributes:
    path: the prefix, the folder of the SavedModel or the file.
    format: "original", "hf" for Hugging Face, or "model_garden".
    shapes: shapes of the tensors, by the original's variable names.
    untrained: names of tensors with random values, since the file lacks them.
    labels_words: whether a head is known to label words, not texts.

  Raises:
    ValueError: if the folder of a run has no checkpoint, or for a file of
      another runtime, which has no tensors to read.
    DamagedCheckpointError: if path does not exist or the index cannot be read.
  """

  def __init__(self, path: str) -> None:
    if is_runtime_file(path):
      raise ValueError(
        f"{path} can only predict. Give the model that it was exported from."
      )
    self.path, self.format = path, "original"
    self.untrained: frozenset[str] = frozenset()
    self.labels_words = False
    self._read: Callable[[str], np.ndarray]
    if hugging_face_config.is_weights(path):
      model = hugging_face.open_model(path)
      self.format, self.untrained = "hf", model.untrained
      self.shapes, self._read = model.shapes, model.get
      return
    prefix = prefix_to_read(path) or find_latest(path)
    if prefix is None:
      raise ValueError(f"{path} has no checkpoint.")
    if not is_saved_model(path):
      self.path = prefix
    with errors.reading(self.path):
      self._open_tensorflow(prefix)

  def _open_tensorflow(self, prefix: str) -> None:
    reader = tf.compat.v1.train.NewCheckpointReader(prefix)
    shapes = reader.get_variable_to_shape_map()
    keys = {checkpoint_names.from_key(key): key for key in shapes}
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    if OBJECT_GRAPH in shapes:
      graph.ParseFromString(reader.get_tensor(OBJECT_GRAPH))
    if is_saved_model(self.path):
      keys = {
        attribute.full_name: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.full_name
      }
    places = {
      name: model_garden.Place(key, tuple(shapes[key]))
      for name, key in keys.items()
    }
    if checkpoint_names.WORD_EMBEDDINGS not in places:
      found, self.labels_words = model_garden.find_places(graph, shapes)
      if found:
        self.format, places = "model_garden", found
    self.shapes = {name: place.shape for name, place in places.items()}

    def read(name: str) -> np.ndarray:
      value = reader.get_tensor(places[name].key)
      is_original = self.format == "original"
      return value if is_original else places[name].to_original(value)

    self._read = read

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
    """Returns one tensor; raises DamagedCheckpointError for damaged data."""
    with errors.reading(self.path):
      return self._read(name)


def check_finite(path: str, tensors: Mapping[str, np.ndarray]) -> None:
  """Raises DamagedCheckpointError for tensors with NaN or infinite values."""
  for name, value in tensors.items():
    is_float = tf.as_dtype(np.asarray(value).dtype).is_floating
    if is_float and not np.isfinite(value).all():
      raise DamagedCheckpointError(
        f"{path} holds values that are not finite, in {name}: its training had "
        "diverged."
      )


def prefix_to_read(path: str) -> str | None:
  """The prefix of the files to read; None for the folder of a run."""
  if is_saved_model(path):
    return os.path.join(path, "variables", "variables")
  if exists(path):
    return path
  if paths.is_folder(path):
    return None
  raise DamagedCheckpointError(
    f"model {path!r} not found: there is neither such a folder nor "
    f"{path}{_INDEX}."
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
    DamagedCheckpointError: if the checkpoint cannot be read completely.
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


def init_from_checkpoint(
  model: keras.Model,
  init_checkpoint: str | CheckpointReader,
  encoder_only: bool = False,
) -> list[str]:
  """Loads the encoder from a checkpoint and, unless encoder_only, its heads.

  Returns and raises as `load_variables`.
  """
  reader = init_checkpoint
  if isinstance(reader, str):
    reader = CheckpointReader(reader)
  prefix = "bert/" if encoder_only else ""
  missing = load_variables(reader, model, required="bert/", prefix=prefix)
  num_all = len(model.weights)
  restored = f"{num_all - len(missing)} of {num_all} variables restored"
  untrained = f"; untrained: {', '.join(missing)}" if missing else ""
  logging.info(f"{reader.path}: {restored}{untrained}.")
  return missing
