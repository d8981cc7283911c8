"""Finds the weights of a model in a folder, and the config beside them."""

import os
from collections.abc import Sequence

from bert_tf.checkpoint import checkpoints, hugging_face, run_info
from bert_tf.checkpoint.hub import download
from bert_tf.files import messages, paths, text_lines
from bert_tf.model import hugging_face_config

RELEASED = "bert_model.ckpt"  # The prefix in the folders of 2018.


def find_weights(path: str) -> str:
  """Returns the weights at a path, as `ModelFolder.weights`.

  Raises:
    ValueError: if there is no such model, or more than one.
  """
  path = download.resolve_model(path)
  folder = run_info.get_folder(path)
  if paths.is_file(path):
    has_run = paths.exists(os.path.join(folder, run_info.RUN_FILE))
    is_runtime_file = has_run and checkpoints.is_runtime_file(path)
    if is_runtime_file or hugging_face_config.is_weights(path):
      return path
    form = text_lines.name_format(paths.read_bytes(path, 64))
    fault = f"it is {form}. " if form else ""
    raise ValueError(f"{path} is not a model: {fault}{_list([path])}")
  if folder != path:
    checkpoints.find_prefix(path)  # Raises if there is no checkpoint.
    return path
  names = paths.list_folder(path)
  # The folder, else the newest version below it.
  versions = sorted(filter(str.isdecimal, names), key=int, reverse=True)
  saved_models = [path, *(os.path.join(path, version) for version in versions)]
  models = list(filter(checkpoints.is_saved_model, saved_models))[:1]
  if newest := checkpoints.find_latest(path):
    models.append(newest)
  else:
    prefixes = [n.removesuffix(".index") for n in names if n.endswith(".index")]
    models += [os.path.join(path, prefix) for prefix in prefixes]
  theirs = list(filter(hugging_face_config.is_weights, names))
  if hugging_face.WEIGHTS in theirs or models:  # Others are copies of it.
    theirs = [name for name in theirs if name == hugging_face.WEIGHTS]
  models += [os.path.join(path, name) for name in theirs]
  if run_info.RUN_FILE in names and not models:
    runtime_files = filter(checkpoints.is_runtime_file, names)
    models = [os.path.join(path, name) for name in runtime_files]
  if len(models) == 1:
    return models[0]
  if models:
    raise ValueError(f"{path} holds several models: {', '.join(models)}.")
  raise ValueError(f"{path} holds no model that can be read: {_list(names)}")


def hash_weights(path: str) -> str:
  """Returns a SHA-256 of a model's weights, in hexadecimal digits.

  Hashes only the index of a TensorFlow checkpoint, which has a checksum per
  tensor. A safetensors file has none, so all of it is hashed.
  """
  weights = find_weights(path)
  if not hugging_face_config.is_weights(weights):
    weights = f"{checkpoints.find_prefix(weights)}.index"
  return paths.sha256(weights)


def _list(files: Sequence[str]) -> str:
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
