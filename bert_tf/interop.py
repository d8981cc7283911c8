"""Models of other libraries, made into checkpoints of the original's form.

Reads the folder that Hugging Face's `save_pretrained` writes: config.json,
model.safetensors, vocab.txt and, where there, tokenizer_config.json.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, modeling, tokenization

_WEIGHTS = "model.safetensors"

# The same, pickled.
_PICKLED = "pytorch_model.bin"

# What an activation is called there, and here. There "gelu" is the exact
# form, here it is the tanh form, as in the original.
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_pytorch_tanh": "gelu",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
}

# Settings that this model has one value of; a file without them has it too.
_FIXED_SETTINGS = {
  "model_type": "bert",
  "layer_norm_eps": 1e-12,
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
}

# What FullTokenizer always does; None follows do_lower_case.
_FIXED_TOKENIZER_SETTINGS = {
  "strip_accents": None,
  "tokenize_chinese_chars": True,
}

# How a name ends here and there; a matrix is transposed, a table is not.
_ENDS = {
  "kernel": ("weight",),
  "bias": ("bias",),
  "gamma": ("weight", "gamma"),
  "beta": ("bias", "beta"),
  "output_weights": ("weight",),
  "output_bias": ("bias",),
}

# How a head's name begins here and there.
_HEADS = {
  "cls/predictions/": "cls.predictions.",
  "cls/seq_relationship/": "cls.seq_relationship.",
  "cls/squad/": "qa_outputs.",
  "": "classifier.",
}

_EMBEDDINGS = "bert/embeddings/word_embeddings"
_POOLER = "bert/pooler/dense"

# Copies of other tensors: of the positions, and of the tied output matrix
# and its bias.
_POSITION_IDS = "embeddings.position_ids"
_COPIES = {
  "cls.predictions.decoder.weight": _EMBEDDINGS,
  "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}

_FLOATS = ("bfloat16", "float16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class Converted:
  """What was read of a model and written.

  Attributes:
    heads: the heads that came with the encoder, such as "cls/squad"; a
      classifier's is "output_weights".
    pooler_is_random: whether the file had no pooler, so that one was drawn.
    do_lower_case: what tokenizer_config.json says; None where it is not
      there.
    differing_settings: of tokenizer_config.json, what FullTokenizer does in
      another way.
  """

  heads: tuple[str, ...]
  pooler_is_random: bool
  do_lower_case: bool | None
  differing_settings: tuple[str, ...]


def convert_from_hf(folder: str, output_checkpoint: str) -> Converted:
  """Writes a Hugging Face model as checkpoint, config and vocabulary.

  Args:
    folder: what `save_pretrained` wrote of a BERT model and its tokenizer.
    output_checkpoint: prefix of the checkpoint to write; bert_config.json and
      vocab.txt go beside it.

  Raises:
    ValueError: if a file is missing, the weights are pickled, the config asks
      for another model, tensors are missing or odd (names all of them), or
      another model's files stand beside output_checkpoint.
    ImportError: without the package safetensors.
  """
  weights = _weights_file(folder)
  hf_config = _read_json(os.path.join(folder, "config.json"))
  config = bert_config(hf_config)
  vocab = _vocabulary(folder, config)
  tensors, pooler_is_random = _converted(_read_tensors(weights), config)
  output_dir = os.path.dirname(output_checkpoint) or "."
  beside = {
    "bert_config.json": config.to_json_string().encode(),
    "vocab.txt": vocab,
  }
  _check_beside(output_dir, beside)
  checkpoints.write(output_checkpoint, tensors)
  for name, content in beside.items():
    with tf.io.gfile.GFile(os.path.join(output_dir, name), "wb") as writer:
      writer.write(content)
  do_lower_case, differing = _tokenizer_settings(folder)
  return Converted(
    heads=tuple(
      head.removesuffix("/") or "output_weights"
      for head in _HEADS
      if head + "output_bias" in tensors
    ),
    pooler_is_random=pooler_is_random,
    do_lower_case=do_lower_case,
    differing_settings=differing,
  )


def bert_config(hf_config: Mapping[str, Any]) -> modeling.BertConfig:
  """Returns the config of the same model.

  Args:
    hf_config: the object of a config.json.

  Raises:
    ValueError: naming all sizes that are missing and all settings that this
      model does not have.
  """
  names = [field.name for field in dataclasses.fields(modeling.BertConfig)]
  names.remove("unknown")
  faults = [f"{name} is missing" for name in names if name not in hf_config]
  faults += [
    f"{name} is {hf_config[name]!r} and has to be {value!r}"
    for name, value in _FIXED_SETTINGS.items()
    if hf_config.get(name, value) != value
  ]
  hidden_act = hf_config.get("hidden_act", "gelu")
  if hidden_act not in _ACTIVATIONS:
    faults.append(
      f"hidden_act is {hidden_act!r} and has to be one of "
      f"{', '.join(_ACTIVATIONS)}"
    )
  if faults:
    raise ValueError(
      f"config.json is of no model that can be read: {'; '.join(faults)}."
    )
  values = {name: hf_config[name] for name in names}
  return modeling.BertConfig(
    **{**values, "hidden_act": _ACTIVATIONS[hidden_act]}
  )


def _weights_file(folder: str) -> str:
  """Returns the path of the weights; raises ValueError without them."""
  path = os.path.join(folder, _WEIGHTS)
  if os.path.isfile(path):
    return path
  if os.path.isfile(os.path.join(folder, _PICKLED)):
    raise ValueError(
      f"{folder} has {_PICKLED} and no {_WEIGHTS}: weights that are pickled "
      "can run any code when they are read, so they are not. Save the model "
      "again by save_pretrained(folder, safe_serialization=True)."
    )
  raise ValueError(
    f"{folder} has no {_WEIGHTS}; give the folder that save_pretrained wrote."
  )


def _read_json(path: str) -> dict[str, Any]:
  """Returns the object of a file; raises ValueError if it is none."""
  try:
    with open(path, encoding="utf-8") as reader:
      value = json.load(reader)
  except FileNotFoundError:
    raise ValueError(f"there is no {path}.") from None
  except ValueError as error:
    raise ValueError(f"{path} is no JSON: {error}.") from None
  if not isinstance(value, dict):
    raise ValueError(f"{path} is no JSON object.")
  return value


def _vocabulary(folder: str, config: modeling.BertConfig) -> bytes:
  """Returns the content of vocab.txt; raises ValueError if it does not fit."""
  path = os.path.join(folder, "vocab.txt")
  if not os.path.isfile(path):
    raise ValueError(
      f"{folder} has no vocab.txt; save the tokenizer of the model there: a "
      "BertTokenizer writes one by save_vocabulary(folder)."
    )
  num_tokens = len(tokenization.load_vocab(path))
  if num_tokens != config.vocab_size:
    raise ValueError(
      f"{path} has {num_tokens} word pieces, but vocab_size of config.json is "
      f"{config.vocab_size}; use the vocabulary that the model is for."
    )
  with open(path, "rb") as reader:
    return reader.read()


def _tokenizer_settings(folder: str) -> tuple[bool | None, tuple[str, ...]]:
  """Returns do_lower_case and the settings that FullTokenizer lacks."""
  path = os.path.join(folder, "tokenizer_config.json")
  if not os.path.isfile(path):
    return None, ()
  settings = _read_json(path)
  do_lower_case = settings.get("do_lower_case", True)
  # Accents are stripped where letters are lowered.
  same = {"strip_accents": (None, do_lower_case)}
  differing = [
    f"{name} {settings[name]}"
    for name, value in _FIXED_TOKENIZER_SETTINGS.items()
    if settings.get(name, value) not in same.get(name, (value,))
  ]
  return do_lower_case, tuple(differing)


def _read_tensors(path: str) -> dict[str, np.ndarray]:
  """Returns the tensors by the names of the file."""
  try:
    from safetensors import SafetensorError, numpy
  except ImportError as error:
    raise ImportError(
      "reading model.safetensors needs the package safetensors: pip install "
      "'bert_tf[hf]', or pip install safetensors."
    ) from error
  try:
    return numpy.load_file(path)
  except SafetensorError as error:
    raise ValueError(
      f"{path} is damaged or only half there: {error}; get it again."
    ) from error


def _converted(
  found: Mapping[str, np.ndarray], config: modeling.BertConfig
) -> tuple[dict[str, np.ndarray], bool]:
  """Returns the tensors by the original's names, and if the pooler is drawn.

  Raises:
    ValueError: naming every tensor that is missing or odd.
  """
  # A BertModel that was saved alone has no prefix.
  has_prefix = any(name.startswith("bert.") for name in found)
  encoder_prefix = "bert." if has_prefix else ""
  remaining = dict(found)
  remaining.pop(encoder_prefix + _POSITION_IDS, None)
  copies = {n: remaining.pop(n) for n in _COPIES if n in remaining}
  pooler_is_random = not any("pooler." in name for name in found)
  shapes = {**_encoder_shapes(config), **_head_shapes(config, found)}
  if not pooler_is_random:
    shapes.update(_dense(_POOLER, config.hidden_size, config.hidden_size))
  tensors, faults = {}, []
  for name, shape in shapes.items():
    candidates = _hf_names(name, encoder_prefix)
    key = next((n for n in candidates if n in remaining), None)
    if key is None:
      faults.append(f"{candidates[0]} is missing")
      continue
    value = remaining.pop(key)
    faults += _odd(key, value, name, shape)
    value = value.T if name.endswith("/kernel") else value
    tensors[name] = np.ascontiguousarray(value, np.float32)
  faults += [f"{name} is not of a BERT model" for name in sorted(remaining)]
  faults += [
    f"{name} is not the same as {_hf_names(_COPIES[name], encoder_prefix)[0]}"
    for name, value in copies.items()
    if not np.array_equal(value, tensors.get(_COPIES[name]))
  ]
  if faults:
    raise ValueError(f"the tensors do not fit: {'; '.join(faults)}.")
  if pooler_is_random:
    tensors.update(_drawn_pooler(config))
  return tensors, pooler_is_random


def _odd(
  key: str, value: np.ndarray, name: str, shape: tuple[int, ...]
) -> list[str]:
  """Returns what is wrong with a tensor of the file, [] if nothing is."""
  expected = shape[::-1] if name.endswith("/kernel") else shape
  if value.shape == expected and value.dtype.name in _FLOATS:
    return []
  return [f"{key} is {value.dtype} of {value.shape}, not a float of {expected}"]


def _drawn_pooler(config: modeling.BertConfig) -> dict[str, np.ndarray]:
  """Returns a pooler for a model without one; the same each time.

  Not zeros: nothing below them would get a gradient at first.
  """
  size = config.hidden_size
  kernel = np.random.default_rng(0).standard_normal((size, size), np.float32)
  kernel = np.clip(kernel, -2.0, 2.0) * config.initializer_range
  return {
    f"{_POOLER}/kernel": kernel.astype(np.float32),
    f"{_POOLER}/bias": np.zeros(size, np.float32),
  }


def _hf_names(name: str, encoder_prefix: str) -> list[str]:
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


def _encoder_shapes(config: modeling.BertConfig) -> dict[str, tuple[int, ...]]:
  """Returns name and shape of the tensors of embeddings and layers."""
  size, wide = config.hidden_size, config.intermediate_size
  shapes = {
    _EMBEDDINGS: (config.vocab_size, size),
    "bert/embeddings/position_embeddings": (
      config.max_position_embeddings,
      size,
    ),
    "bert/embeddings/token_type_embeddings": (config.type_vocab_size, size),
    **_layer_norm("bert/embeddings", size),
  }
  for i in range(config.num_hidden_layers):
    layer = f"bert/encoder/layer_{i}"
    for name in ("query", "key", "value"):
      shapes.update(_dense(f"{layer}/attention/self/{name}", size, size))
    shapes.update(_dense(f"{layer}/attention/output/dense", size, size))
    shapes.update(_layer_norm(f"{layer}/attention/output", size))
    shapes.update(_dense(f"{layer}/intermediate/dense", size, wide))
    shapes.update(_dense(f"{layer}/output/dense", wide, size))
    shapes.update(_layer_norm(f"{layer}/output", size))
  return shapes


def _head_shapes(
  config: modeling.BertConfig, found: Sequence[str]
) -> dict[str, tuple[int, ...]]:
  """Returns name and shape of the tensors of the heads that are there."""
  size = config.hidden_size
  transform = "cls/predictions/transform"
  num_labels = 1
  if "classifier.weight" in found:
    num_labels = len(found["classifier.weight"])
  of_heads = {
    "cls/predictions/": {
      **_dense(f"{transform}/dense", size, size),
      **_layer_norm(transform, size),
      "cls/predictions/output_bias": (config.vocab_size,),
    },
    "cls/seq_relationship/": _linear("cls/seq_relationship/", 2, size),
    "cls/squad/": _linear("cls/squad/", 2, size),
    "": _linear("", num_labels, size),
  }
  shapes = {}
  for head, head_shapes in of_heads.items():
    if any(name.startswith(_HEADS[head]) for name in found):
      shapes.update(head_shapes)
  return shapes


def _dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
  return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _layer_norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
  return {f"{name}/LayerNorm/{end}": (size,) for end in ("gamma", "beta")}


def _linear(name: str, outputs: int, size: int) -> dict[str, tuple[int, ...]]:
  """Returns the shapes of a head that is stored as [outputs, D]."""
  return {
    f"{name}output_weights": (outputs, size),
    f"{name}output_bias": (outputs,),
  }


def _check_beside(output_dir: str, beside: Mapping[str, bytes]) -> None:
  """Raises ValueError if another model's files would be written over."""
  for name, content in beside.items():
    path = os.path.join(output_dir, name)
    if tf.io.gfile.exists(path):
      with tf.io.gfile.GFile(path, "rb") as reader:
        if reader.read() != content:
          raise ValueError(
            f"{path} is another model's; choose another folder for "
            "--output_checkpoint."
          )
