"""Reads what transformers' `save_pretrained` writes, by the release's names."""

import os
import re
import tempfile
from typing import Any

import numpy as np
from absl import logging

from bert_tf import task_registry
from bert_tf.checkpoint.checkpoint_names import WORD_EMBEDDINGS, Tensors
from bert_tf.files import errors, messages, packages, paths
from bert_tf.model import hugging_face_config

WEIGHTS = "model.safetensors"

# Prefixes of the heads' variables: Hugging Face's to the 2018 release's.
_HEADS = {
  "cls.predictions.": "cls/predictions/",
  "cls.seq_relationship.": "cls/seq_relationship/",
  "qa_outputs.": "cls/squad/",
  "classifier.": "",
}

CHOICE_BIAS = "classifier.bias"  # Also that of the other classifiers.

_MASKED_LM_BIAS = "cls/predictions/output_bias"
# Tensors that are copies: the tied output matrix and its bias.
_COPIES = {
  "cls.predictions.decoder.weight": WORD_EMBEDDINGS,
  "cls.predictions.decoder.bias": _MASKED_LM_BIAS,
}

# The word embeddings: what may stand before a model's names, and `bert.` in a
# model with a head.
_WORDS = re.compile(r"(|.*?\.)(bert\.)?embeddings\.word_embeddings\.weight")


def open_model(path: str) -> Tensors:
  """Opens a file of a BERT model's weights under the 2018 release's names.

  The file is a safetensors file, or a tf_model.h5 of transformers 4. Adds an
  untrained pooler if the file has none, and an untrained next-sentence head if
  it has only a masked-LM head. Floats become float32.

  Raises:
    ValueError: if a file is missing or damaged, the model is not a BERT, or its
      output matrix is not tied to the embeddings.
    ImportError: if the package safetensors is missing.
  """
  file = open_file(path)
  if not path.endswith(hugging_face_config.SUFFIXES[0]):
    file = _torch_tensors(file)
  if any(".lora_" in key for key in file.shapes):
    raise ValueError(
      f"{path} holds a LoRA adapter; merge it into its model with PEFT's "
      "merge_and_unload, and save the result with save_pretrained."
    )
  config = hugging_face_config.read_config(os.path.dirname(path))
  words = filter(None, map(_WORDS.fullmatch, file.shapes))
  # The scope of a file without a model_type might be `roberta.`.
  scopes = [word[1] for word in words if word[2] or config.model_type]
  scope = scopes[0] if len(scopes) == 1 else ""
  if scope:
    logging.info("%s: the tensors' prefix %s was dropped.", path, scope)
  keys = {key.removeprefix(scope): key for key in file.shapes}
  has_choices = hugging_face_config.find_task(config) is task_registry.SWAG
  names = {
    original_name(key, has_choices): old
    for key, old in keys.items()
    if key not in _COPIES and not key.endswith("embeddings.position_ids")
  }
  if has_choices:  # It is the same for all choices of a question.
    names.pop(CHOICE_BIAS, None)
  model_types = (None, hugging_face_config.FIXED_SETTINGS["model_type"])
  words_shape = file.shapes.get(names.get(WORD_EMBEDDINGS, ""), ())
  if len(words_shape) != 2 or config.model_type not in model_types:
    raise ValueError(
      f"{path} does not hold one BERT model: its model_type is "
      f"{config.model_type!r}, and its tensors are "
      f"{messages.join_names(sorted(file.shapes), 5)}."
    )
  added: dict[str, np.ndarray] = {}

  def get(name: str) -> np.ndarray:
    if name in added:
      return added[name]
    value = file.get(names[name])
    if value.dtype.kind not in "iub":  # NumPy has no kind for bfloat16.
      value = value.astype(np.float32)
    return np.ascontiguousarray(value.T if name.endswith("/kernel") else value)

  for key in _COPIES.keys() & keys.keys():
    value, original = file.get(keys[key]), _COPIES[key]
    if original not in names or not np.array_equal(
      value.astype(np.float32), get(original)
    ):
      raise ValueError(f"{key} in {path} must equal {original}.")
  size, scope = words_shape[1], "bert/pooler/dense/"
  layers = {"pooler": {f"{scope}kernel": (size, size), f"{scope}bias": (size,)}}
  if _MASKED_LM_BIAS in names:  # Our pre-training model has both heads.
    scope = "cls/seq_relationship/output_"
    head = {f"{scope}weights": (2, size), f"{scope}bias": (2,)}
    layers["next-sentence head"] = head
  shapes = {
    name: file.shapes[key][:: -1 if name.endswith("/kernel") else 1]
    for name, key in names.items()
  }
  for layer, missing in layers.items():
    if missing.keys() & names.keys():
      continue
    logging.info(
      "%s: the model has no %s, so an untrained one was added.", path, layer
    )
    shapes |= missing
    for name, shape in missing.items():
      added[name] = np.zeros(shape, np.float32)
      if len(shape) > 1:  # Zeros would pass no gradient to the layers below.
        # A truncated normal matrix, equal in every call.
        value = np.random.default_rng(0).standard_normal(shape, np.float32)
        added[name] = value.clip(-2, 2) * np.float32(config.initializer_range)
  return Tensors(path, shapes, get, "hf", frozenset(added))


def open_file(path: str) -> Tensors:
  """Opens a safetensors or an HDF5 file; raises as `open_model`."""
  shapes: dict[str, tuple[int, ...]] = {}
  if not path.endswith(hugging_face_config.SUFFIXES[0]):
    import h5py  # A dependency of Keras.

    def note(name: str, item: Any) -> None:
      # The content of others is in files that are not the model's.
      if isinstance(item, h5py.Dataset) and not item.external:
        if not item.is_virtual:
          shapes[name] = tuple(item.shape)

    with errors.reading(path, "is damaged or not an HDF5 file"):
      archive = h5py.File(paths.open_bytes(path), "r")
      archive.visititems(note)
    return Tensors(path, shapes, lambda name: archive[name][()])
  with packages.needs_extra(path, extra="hf"):
    import safetensors
  with tempfile.TemporaryDirectory() as folder:
    local = path
    if paths.is_remote(path):
      local = os.path.join(folder, WEIGHTS)
      paths.copy(path, local)
    with errors.reading(path):
      # The file stays readable after its folder is removed.
      file = safetensors.safe_open(local, framework="numpy")
      for name in file.keys():
        shapes[name] = tuple(file.get_slice(name).get_shape())
  return Tensors(path, shapes, file.get_tensor)


def _torch_tensors(file: Tensors) -> Tensors:
  """The tensors of a tf_model.h5 by PyTorch's names, in its shapes.

  A dataset is called GROUP/MODEL/bert/encoder/layer_._0/.../kernel:0, in which
  MODEL is a scope like those of PyTorch. X___Y stands for Y.
  """
  places, shapes = {}, {}
  # Last parts of TensorFlow's names to PyTorch's, if the two differ.
  ends = dict.fromkeys(("kernel", "gamma", "embeddings"), "weight")
  ends["beta"] = "bias"
  for place, shape in file.shapes.items():
    name = re.sub(r"[^/]*___", "", place.partition("/")[2].removesuffix(":0"))
    *scopes, end = name.replace("_._", "/").split("/")
    name = ".".join([*scopes, ends.get(end, end)])
    places[name] = place, end == "kernel"
    shapes[name] = shape[::-1] if end == "kernel" else shape

  def get(name: str) -> np.ndarray:
    place, is_kernel = places[name]
    return file.get(place).T if is_kernel else file.get(place)

  return Tensors(file.path, shapes, get)


def original_name(key: str, has_choices: bool = False) -> str:
  """The 2018 release's name of a tensor; unknown keys stay unchanged.

  `has_choices` says whether `classifier` is the head for multiple choice.
  """
  heads = [prefix for prefix in _HEADS if key.startswith(prefix)]
  start = _HEADS[heads[0]] if heads else "bert/"
  name = key.removeprefix(heads[0] if heads else "bert.")
  if not heads and not name.startswith(("embeddings.", "encoder.", "pooler.")):
    return key
  *scopes, end = re.sub(r"\blayer\.(\d+)", r"layer_\1", name).split(".")
  if has_choices and key.startswith("classifier."):
    return "choice_weights" if end == "weight" else key
  ends = {"weight": "kernel"}
  if not scopes:
    ends = {"weight": "output_weights", "bias": "output_bias"}
  elif scopes[-1] == "LayerNorm":
    ends = {"weight": "gamma", "bias": "beta"}
  elif scopes[-1].endswith("_embeddings") and end == "weight":
    return start + "/".join(scopes)
  return start + "/".join([*scopes, ends.get(end, end)])


def hugging_face_name(name: str, prefix: str) -> str:
  """The name in the file of a tensor of the 2018 release.

  The encoder's `prefix` is "bert.", or "" in a file of only the encoder.
  """
  prefixes = {"bert/": prefix}
  prefixes |= {original: head for head, original in _HEADS.items()}
  start = next(start for start in prefixes if name.startswith(start))
  key = name.removeprefix(start).replace("/", ".")
  key = re.sub(r"\blayer_(\d+)", r"layer.\1", key)
  key = re.sub(r"(kernel|gamma|(output|choice)_weights)$", "weight", key)
  key = re.sub(r"(beta|output_bias)$", "bias", key)
  return prefixes[start] + re.sub(r"(_embeddings)$", r"\1.weight", key)
