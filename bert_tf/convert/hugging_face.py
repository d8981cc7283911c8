"""Hugging Face's form: the folder that `save_pretrained` writes.

It has config.json, model.safetensors, vocab.txt and tokenizer_config.json.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.convert import beside, hugging_face_files, pretrained
from bert_tf.convert import inspect as checkpoint_inspection
from bert_tf.files import atomic, errors

_WEIGHTS = "model.safetensors"

# The same in several files, with this beside them.
_SHARDED = "model.safetensors.index.json"

# Ends of what PyTorch pickles.
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

# How a name ends here and there; a matrix is transposed, a table is not.
_ENDS = {
  "kernel": ("weight",),
  "bias": ("bias",),
  "gamma": ("weight", "gamma"),
  "beta": ("bias", "beta"),
  "output_weights": ("weight",),
  "output_bias": ("bias",),
  "choice_weights": ("weight",),
}

# How a head's names begin here and there. Of the two that stand at the root
# a file has one.
_HEADS = {
  "cls/predictions/": "cls.predictions.",
  "cls/seq_relationship/": "cls.seq_relationship.",
  "cls/squad/": "qa_outputs.",
  "": "classifier.",
}

_EMBEDDINGS = "bert/embeddings/word_embeddings"
_CHOICE_BIAS = "classifier.bias"

# Copies of other tensors: of the positions, and of the tied output matrix
# and its bias.
_POSITION_IDS = "embeddings.position_ids"
_COPIES = {
  "cls.predictions.decoder.weight": _EMBEDDINGS,
  "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}


def read(folder: str, given: beside.Given) -> pretrained.Pretrained:
  """Reads what `save_pretrained` wrote of a BERT model and its tokenizer.

  Raises:
    ValueError: if a file is missing, the weights are pickled, the config asks
      for another model, or tensors are missing or odd (names all of them).
    ImportError: without the package safetensors.
  """
  weights = _weights_file(folder)
  hf_config = hugging_face_files.read_config(folder)
  config = hugging_face_files.bert_config(hf_config)
  vocab = _read_vocab(folder, given, config)
  settings = hugging_face_files.read_tokenizer_settings(folder)
  head = hugging_face_files.head_of_classifier(hf_config)
  file = checkpoint_inspection.open_tensors(weights)
  found = {name: file.get(name) for name in file.shapes}
  tensors, notes = _tensors(found, config, head, weights)
  task = None
  if "output_weights" in tensors:
    num_labels = len(tensors["output_bias"])
    task = hugging_face_files.read_task(hf_config, num_labels)
  do_lower_case = given.do_lower_case
  if do_lower_case is None:
    do_lower_case = settings.do_lower_case
  model = pretrained.Pretrained(
    config, tensors, vocab, do_lower_case, task, tuple(notes)
  )
  if f"{pretrained.POOLER}/kernel" not in tensors:
    model = pretrained.with_drawn(model, pretrained.POOLER)
  return dataclasses.replace(model, notes=(*model.notes, *settings.notes()))


def write(model: pretrained.Pretrained, folder: str) -> pretrained.Pretrained:
  """Writes the folder that `from_pretrained` takes.

  Its class is the one for the model's heads.

  Args:
    model: what is written, with a vocabulary.
    folder: is made; may hold what an earlier run wrote of the same model.

  Returns:
    What was written.

  Raises:
    ValueError: if the model has no vocabulary or heads that no class there
      has, or if the folder holds anything else.
    ImportError: without the package safetensors.
  """
  model = hugging_face_files.with_case(model)
  texts = hugging_face_files.texts(model)
  _check_folder(folder, texts)
  _write_tensors(_tensors_there(model), folder, texts)
  return model


def _tensors_there(model: pretrained.Pretrained) -> dict[str, np.ndarray]:
  """Returns the tensors of a model by the names of the file."""
  tensors = {}
  for name, value in model.tensors.items():
    place = _place(name, value.shape, "bert.")
    tensors[place.names[0]] = place.from_original(value)
  if not model.heads:
    # A model without a head is saved without the encoder's prefix.
    tensors = {n.removeprefix("bert."): t for n, t in tensors.items()}
  if pretrained.CHOICE_WEIGHTS in model.heads:
    tensors[_CHOICE_BIAS] = np.zeros(1, np.float32)
  return tensors


def _write_tensors(
  tensors: Mapping[str, np.ndarray], folder: str, texts: Mapping[str, str]
) -> None:
  """Writes the files of a folder, the weights last."""
  os.makedirs(folder, exist_ok=True)
  for name, text in texts.items():
    atomic.write(os.path.join(folder, name), [text])
  path = os.path.join(folder, _WEIGHTS)
  # transformers refuses files that do not say whose layout they have. Not
  # save_file, which makes a file that others may not read.
  data = _safetensors().save(tensors, metadata={"format": "pt"})
  atomic.write_bytes(path, data)


def _safetensors():
  """Returns the module that reads and writes NumPy arrays."""
  with errors.needs_extra(_WEIGHTS, extra="hf"):
    from safetensors import numpy
  return numpy


def _weights_file(folder: str) -> str:
  """Returns the path of the weights; raises ValueError without them."""
  path = os.path.join(folder, _WEIGHTS)
  if os.path.isfile(path):
    return path
  names = [folder]
  if os.path.isdir(folder):
    names = sorted(os.listdir(folder))
  pickled = [name for name in names if name.endswith(_PICKLED)]
  if pickled:
    raise ValueError(
      f"{folder} has {os.path.basename(pickled[0])} and no {_WEIGHTS}: weights "
      "that are pickled can run any code when they are read, so they are not. "
      "Where you trust them, load them with transformers and save the model "
      "again by save_pretrained(folder); it writes safetensors."
    )
  if _SHARDED in names:
    raise ValueError(
      f"{folder} has its weights in several files; save the model again by "
      "save_pretrained(folder, max_shard_size='100GB')."
    )
  raise ValueError(
    f"{folder} has no {_WEIGHTS}; give the folder that save_pretrained wrote."
  )


def _read_vocab(
  folder: str, given: beside.Given, config: modeling.BertConfig
) -> str:
  """Returns the text of vocab.txt; raises ValueError if it does not fit."""
  path = given.vocab_file or os.path.join(folder, "vocab.txt")
  if not tf.io.gfile.exists(path):
    raise ValueError(
      f"there is no {path}; save the tokenizer of the model there, a "
      "BertTokenizer writes one by save_vocabulary(folder), or give "
      "--vocab_file."
    )
  config_file = os.path.join(folder, hugging_face_files.CONFIG)
  return beside.read_vocab(path, config, config_file)


def _tensors(
  found: Mapping[str, np.ndarray],
  config: modeling.BertConfig,
  classifier_head: str,
  path: str,
) -> tuple[dict[str, np.ndarray], list[str]]:
  """Returns the tensors by the original's names, and notes on them.

  Args:
    found: by the names of the file.
    config: sizes.
    classifier_head: what `classifier.` is of, see pretrained.HEADS.
    path: of the file.
  """
  # A BertModel that was saved alone has no prefix.
  has_prefix = any(name.startswith("bert.") for name in found)
  prefix = "bert." if has_prefix else ""
  remaining = dict(found)
  remaining.pop(prefix + _POSITION_IDS, None)
  has_pooler = any(name.startswith(f"{prefix}pooler.") for name in found)
  notes = []
  heads = _heads(found, classifier_head)
  if pretrained.CHOICE_WEIGHTS in heads:
    bias = remaining.pop(_CHOICE_BIAS, np.zeros(1))
    if np.any(bias):
      notes.append(
        f"The bias {float(bias[0]):.6g} of the choices' scores is left out; "
        "it is the same for all choices of a question."
      )
  num_labels = len(found.get("classifier.weight", ()))
  shapes = pretrained.shapes_of(config, heads, num_labels, has_pooler)
  tensors = pretrained.collect(
    remaining,
    shapes,
    lambda name, shape: _place(name, shape, prefix),
    path,
    copies=_COPIES,
  )
  return tensors, notes


def _heads(names: Sequence[str], classifier_head: str) -> list[str]:
  """Returns the heads whose tensors are in the file."""
  heads = []
  for start, there in _HEADS.items():
    if any(name.startswith(there) for name in names):
      heads.append(start.removesuffix("/") or classifier_head)
  return heads


def _place(name: str, shape: Sequence[int], prefix: str) -> pretrained.Place:
  """Returns where a tensor of the original is."""
  is_transposed = name.endswith("/kernel")
  return pretrained.Place(
    _names(name, prefix),
    tuple(shape[::-1] if is_transposed else shape),
    is_transposed,
  )


def _names(name: str, encoder_prefix: str) -> list[str]:
  """Returns what a tensor of ours is called there, the usual name first."""
  scope, _, end = name.rpartition("/")
  if name == "cls/predictions/output_bias":
    return ["cls.predictions.bias"]
  if scope == "bert/embeddings":
    return [f"{encoder_prefix}embeddings.{end}.weight"]
  if scope.startswith("bert/"):
    prefix = encoder_prefix
    scope = scope.removeprefix("bert/").replace("layer_", "layer.") + "/"
  else:
    head = next(h for h in _HEADS if (scope + "/").startswith(h))
    prefix = _HEADS[head]
    scope = (scope + "/").removeprefix(head or "/")
  return [prefix + scope.replace("/", ".") + e for e in _ENDS[end]]


def _check_folder(folder: str, texts: Mapping[str, str]) -> None:
  """Raises ValueError if the folder holds anything but the same model."""
  if os.path.exists(folder) and not os.path.isdir(folder):
    raise ValueError(
      f"{folder} is a file; give a folder for --output_checkpoint."
    )
  if not os.path.isdir(folder):
    return
  others = sorted(set(os.listdir(folder)) - {*texts, _WEIGHTS})
  if others:
    raise ValueError(
      f"{folder} already holds {', '.join(others)}, which the model's loader "
      "could take for its own; choose an empty folder for --output_checkpoint."
    )
  beside.check_files(folder, dict(texts))
