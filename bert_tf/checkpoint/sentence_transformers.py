"""The files that sentence-transformers adds to a Hugging Face model.

`modules.json` lists the steps from a text to its vector: a Transformer, a
Pooling and possibly a Normalize.
"""

import dataclasses
import os
from typing import Any

from absl import logging

from bert_tf.files import json_files, paths, tokenizer_files

MODULES = "modules.json"
MODEL_CONFIG = "config_sentence_transformers.json"
TRANSFORMER_CONFIG = "sentence_bert_config.json"
POOLING_CONFIG = "1_Pooling/config.json"

# Supported poolings, by their key in the config of a Pooling module.
_POOLINGS = {
  "pooling_mode_cls_token": "cls",
  "pooling_mode_mean_tokens": "mean",
  "pooling_mode_max_tokens": "max",
}


@dataclasses.dataclass(frozen=True)
class VectorSettings:
  """The settings of a sentence encoder."""

  pooling: str  # "mean", "cls" or "max".
  normalize: bool  # Whether vectors are scaled to length 1.
  max_seq_length: int | None  # Maximum word pieces of a text, if limited.


def read_files(folder: str) -> dict[str, bytes]:
  """The contents of the files by path; {} without a modules.json."""
  if not paths.exists(os.path.join(folder, MODULES)):
    return {}
  names = (MODULES, MODEL_CONFIG, TRANSFORMER_CONFIG, POOLING_CONFIG)
  places = {name: os.path.join(folder, name) for name in names}
  return {n: paths.read_bytes(p) for n, p in places.items() if paths.exists(p)}


def describe(settings: VectorSettings, hidden_size: int) -> dict[str, bytes]:
  """Returns the contents of the files for an encoder, by path."""
  steps = {"": "Transformer", "1_Pooling": "Pooling"}
  if settings.normalize:
    steps["2_Normalize"] = "Normalize"
  module = "sentence_transformers.models"
  length = {"max_seq_length": settings.max_seq_length, "do_lower_case": False}
  modes = {key: mode == settings.pooling for key, mode in _POOLINGS.items()}
  contents = {
    MODULES: [
      {"idx": i, "name": str(i), "path": path, "type": f"{module}.{name}"}
      for i, (path, name) in enumerate(steps.items())
    ],
    TRANSFORMER_CONFIG: length,
    POOLING_CONFIG: {"word_embedding_dimension": hidden_size, **modes},
  }
  return {n: json_files.encode_file(value) for n, value in contents.items()}


def read_settings(folder: str) -> VectorSettings | None:
  """The settings in a model's folder; None without a modules.json.

  A warning names settings that change vectors but are not supported.

  Raises:
    ValueError: if a file is damaged, or a module or pooling is not supported.
  """
  path = os.path.join(folder, MODULES)
  if not paths.exists(path):
    return None
  modules = json_files.read(path, list[dict[str, Any]])
  # The type is the import path of a class, the path the folder of a module.
  names = [str(module.get("type")).rpartition(".")[2] for module in modules]
  known = ["Transformer", "Pooling", "Normalize"]
  if names not in (known[:2], known):
    raise ValueError(
      f"{path} lists the modules {', '.join(names) or '(none)'}, but only "
      f"{', '.join(known)} work. Set `pooling` to use the encoder without them."
    )
  files = (TRANSFORMER_CONFIG, MODEL_CONFIG, POOLING_CONFIG)
  configs = [json_files.find_object(folder, file) or {} for file in files]
  transformer, whole, pooling = configs
  if name := whole.get("default_prompt_name"):
    prompts = whole.get("prompts") or {}
    whole["default_prompt_name"] = {name: prompts.get(name)}
  if tokenizer_files.read_case(folder).do_lower_case:
    transformer.pop("do_lower_case", None)  # The tokenizer does it.
  length = transformer.get("max_seq_length")
  if length is None:
    name = tokenizer_files.TOKENIZER_CONFIG
    tokenizer = json_files.find_object(folder, name) or {}
    length = tokenizer.get("model_max_length")
  if length is not None:  # Without a limit, transformers writes 1e30.
    length = json_files.check(length, float, f"the length in {folder}")
    length = int(min(length, 1e9))
  modes = [pooling.get("pooling_mode")]  # Since sentence-transformers 5.4.
  if not modes[0]:
    modes = [
      _POOLINGS.get(name, name)
      for name, value in pooling.items()
      if name.startswith("pooling_mode_") and value
    ]
  if len(modes) != 1 or modes[0] not in _POOLINGS.values():
    raise ValueError(
      f"{folder}/{POOLING_CONFIG} sets the pooling "
      f"{' and '.join(map(str, modes)) or '(none)'}; set `pooling` to one of "
      f"{', '.join(_POOLINGS.values())}."
    )
  # The only supported values of settings that change vectors.
  supported = {
    "default_prompt_name": None,
    "do_lower_case": False,
    "include_prompt": True,
    "transformer_task": "feature-extraction",
    "truncate_dim": None,
  }
  if others := [
    f"{name}={config[name]!r} ({file})"
    for file, config in zip(files, configs)
    for name, value in supported.items()
    if config.get(name, value) not in (value, None)
  ]:
    logging.warning(
      "%s: vectors can differ from those of sentence-transformers, because "
      "some settings are not applied: %s.",
      folder,
      ", ".join(others),
    )
  return VectorSettings(str(modes[0]), "Normalize" in names, length)
