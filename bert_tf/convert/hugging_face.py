"""Hugging Face's format: the folder that `save_pretrained` writes.

It has config.json, model.safetensors, vocab.txt and tokenizer_config.json.
"""

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType

import numpy as np

from bert_tf import heads, modeling
from bert_tf.convert import (
  hugging_face_config,
  inspect,
  model_files,
  pretrained,
)
from bert_tf.files import atomic, errors, paths
from bert_tf.training import run_dir

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

_CHOICE_BIAS = "classifier.bias"

# Copies of other tensors: of the positions, and of the tied output matrix
# and its bias.
_POSITION_IDS = "embeddings.position_ids"
_COPIES = {
  "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
  "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}


def read(source: model_files.Source) -> pretrained.Pretrained:
  """Reads what `save_pretrained` wrote of a BERT model and its tokenizer.

  Raises:
    ValueError: if a file is missing, the weights are pickled, the config asks
      for another model, or tensors are missing or odd (names all of them).
    ImportError: without the package safetensors.
  """
  folder = source.path
  weights = _weights_file(folder)
  hf_config = hugging_face_config.read_config(folder)
  config = hugging_face_config.bert_config(hf_config)
  vocab_file = _vocab_file(source, config)
  tokenizer = hugging_face_config.read_tokenizer_settings(folder)
  file = inspect.open_tensors(weights)
  found = {name: file.get(name) for name in file.shapes}
  own_heads = _heads(found, hugging_face_config.classifier_head(hf_config))
  tensors, notes = _tensors(found, config, own_heads, weights)
  saved = run_dir.read_run(folder)
  task = pretrained.task_of(own_heads)
  if not saved or saved.task != task:
    saved = run_dir.RunInfo(task=task)
  run = dataclasses.replace(
    hugging_face_config.with_labels(
      saved, hf_config, len(tensors.get("output_bias", ()))
    ),
    do_lower_case=tokenizer.do_lower_case,
  )
  files = model_files.ModelFiles(config, vocab_file, run)
  model = model_files.describe(
    source, files, tensors, hugging_face_config.TOKENIZER_CONFIG
  )
  if f"{pretrained.POOLER}/kernel" not in tensors:
    shapes = pretrained.pooler_shapes(config)
    model = pretrained.with_untrained(model, "pooler", shapes)
  all_notes = (*notes, *model.notes, *tokenizer.notes())
  return dataclasses.replace(model, notes=all_notes)


def write(model: pretrained.Pretrained, folder: str) -> pretrained.Pretrained:
  """Writes the folder that `from_pretrained` takes.

  Its class is the one for the model's heads.

  Args:
    model: to write, with a vocabulary.
    folder: is made; may hold what an earlier run wrote of the same model.

  Returns:
    What was written.

  Raises:
    ValueError: if the model has no vocabulary or heads that no class there
      has, or if the folder holds anything else.
    ImportError: without the package safetensors.
  """
  texts = hugging_face_config.texts(model)
  _check_folder(folder, texts)
  # transformers refuses files that do not say whose layout they have.
  data = _safetensors().save(_tensors_there(model), metadata={"format": "pt"})
  model_files.write(folder, model)
  for name, text in texts.items():
    atomic.write(os.path.join(folder, name), [text])
  atomic.write_bytes(os.path.join(folder, _WEIGHTS), data)
  return model


def _tensors_there(model: pretrained.Pretrained) -> dict[str, np.ndarray]:
  """Returns the tensors of a model by the names of the file."""
  # A model without a head is saved without the encoder's prefix.
  prefix = "bert." if model.own_heads else ""
  tensors = {}
  for name, value in model.tensors.items():
    place = _place(name, value.shape, prefix, model.own_heads)
    tensors[place.names[0]] = place.from_original(value)
  if heads.CHOICES in model.own_heads:
    tensors[_CHOICE_BIAS] = np.zeros(1, np.float32)
  return tensors


def _safetensors() -> ModuleType:
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


def _vocab_file(source: model_files.Source, config: modeling.BertConfig) -> str:
  """Returns the vocabulary; raises ValueError if it is not there or not it."""
  vocab_file = model_files.find_vocab(source, source.path)
  if vocab_file is None:
    raise ValueError(
      f"there is no {os.path.join(source.path, run_dir.VOCAB_FILE)}; save the "
      "tokenizer of the model there, a BertTokenizer writes one by "
      "save_vocabulary(folder), or give --vocab_file."
    )
  config_file = os.path.join(source.path, hugging_face_config.CONFIG)
  model_files.check_vocab(vocab_file, config, config_file)
  return vocab_file


def _tensors(
  found: Mapping[str, np.ndarray],
  config: modeling.BertConfig,
  own_heads: Sequence[heads.Head],
  path: str,
) -> tuple[dict[str, np.ndarray], list[str]]:
  """Returns the tensors by the original's names, and notes on them.

  Args:
    found: by the names of the file.
    config: sizes.
    own_heads: the heads in the file.
    path: of the file.
  """
  # A BertModel that was saved alone has no prefix.
  has_prefix = any(name.startswith("bert.") for name in found)
  prefix = "bert." if has_prefix else ""
  remaining = dict(found)
  remaining.pop(prefix + _POSITION_IDS, None)
  has_pooler = any(name.startswith(f"{prefix}pooler.") for name in found)
  notes = []
  if heads.CHOICES in own_heads:
    bias = remaining.pop(_CHOICE_BIAS, np.zeros(1))
    if np.any(bias):
      notes.append(
        f"The bias {float(bias[0]):.6g} of the choices' scores is left out; "
        "it is the same for all choices of a question."
      )
  num_labels = len(found.get("classifier.weight", ()))
  tensors = pretrained.collect(
    remaining,
    pretrained.shapes_of(config, own_heads, num_labels, has_pooler),
    lambda name, shape: _place(name, shape, prefix, own_heads),
    path,
    copies=_COPIES,
  )
  return tensors, notes


def _heads(
  names: Collection[str], classifier_head: heads.Head
) -> tuple[heads.Head, ...]:
  """Returns the heads whose tensors are in the file."""
  known = (heads.MASKED_LM, heads.NEXT_SENTENCE, heads.SPAN, classifier_head)
  return tuple(
    head
    for head in known
    if any(name.startswith(head.hugging_face[1]) for name in names)
  )


def _place(
  name: str,
  shape: pretrained.Shape,
  prefix: str,
  own_heads: Sequence[heads.Head],
) -> pretrained.Place:
  """Returns where a tensor of the original is."""
  is_transposed = name.endswith("/kernel")
  return pretrained.Place(
    _names(name, prefix, own_heads),
    tuple(shape[::-1] if is_transposed else shape),
    is_transposed,
  )


def _names(
  name: str, prefix: str, own_heads: Sequence[heads.Head]
) -> list[str]:
  """Returns what a tensor is called there, the usual name first.

  Args:
    name: the original's.
    prefix: of the encoder's names there.
    own_heads: the model's.
  """
  *scopes, end = name.split("/")
  if name.startswith("bert/embeddings/") and len(scopes) == 2:
    return [f"{prefix}embeddings.{end}.weight"]
  if scopes[:1] == ["bert"]:
    scopes = [scope.replace("layer_", "layer.") for scope in scopes[1:]]
  else:
    head = next(head for head in own_heads if name in head.shapes)
    prefix = head.hugging_face[1]
    scopes = scopes[2:]  # Without those of the head, such as cls/predictions.
  scope = "".join(f"{scope}." for scope in scopes)
  return [prefix + scope + e for e in _ENDS[end]]


def _check_folder(folder: str, texts: Mapping[str, str]) -> None:
  """Raises ValueError if the folder holds anything but the same model."""
  if paths.is_file(folder):
    raise ValueError(
      f"{folder} is a file; give a folder for --output_checkpoint."
    )
  if not paths.exists(folder):
    return
  own = {*texts, _WEIGHTS, run_dir.RUN_FILE, run_dir.LABEL_MAP_FILE}
  own |= {run_dir.CONFIG_FILE, run_dir.VOCAB_FILE}
  others = sorted(set(paths.list_folder(folder)) - own)
  if others:
    raise ValueError(
      f"{folder} already holds {', '.join(others)}, which the model's loader "
      "could take for its own; choose an empty folder for --output_checkpoint."
    )
  for name, text in texts.items():
    model_files.check_content(os.path.join(folder, name), text.encode())
