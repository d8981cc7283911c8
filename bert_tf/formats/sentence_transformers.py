"""The files that sentence-transformers adds to a Hugging Face model.

`modules.json` lists the steps from a text to its vector: a Transformer, a
Pooling and possibly a Normalize.
"""

import dataclasses
import glob
import os

from bert_tf.files import json_files, paths

MODULES = "modules.json"
TRANSFORMER_CONFIG = "sentence_bert_config.json"
POOLING_CONFIG = "config.json"

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
  """Returns the contents of the files by path; {} without a modules.json."""
  if not paths.exists(os.path.join(folder, MODULES)):
    return {}
  # The folders of modules are called 1_Pooling, 2_Normalize and so on.
  pattern = os.path.join(glob.escape(folder), "[0-9]_*", POOLING_CONFIG)
  modules = map(os.path.dirname, paths.matches(pattern))
  names = [f"{os.path.basename(m)}/{POOLING_CONFIG}" for m in modules]
  return {
    name: paths.read_bytes(path)
    for name in (MODULES, TRANSFORMER_CONFIG, *names)
    if paths.exists(path := os.path.join(folder, name))
  }


def read_settings(folder: str) -> VectorSettings | None:
  """Returns the settings in a model's folder; None without a modules.json.

  Raises:
    ValueError: if a file is damaged, or a module or pooling is not supported.
  """
  path = os.path.join(folder, MODULES)
  if not paths.exists(path):
    return None
  # The type is the import path of a class, the path the folder of a module.
  modules = json_files.read(path, list[dict[str, str | int | None]])
  names = [str(module.get("type")).rpartition(".")[2] for module in modules]
  known = ["Transformer", "Pooling", "Normalize"]
  if names not in (known[:2], known):
    raise ValueError(
      f"{path} lists the modules {', '.join(names) or '(none)'}; supported are "
      f"{', '.join(known)}. Set `pooling` to use the encoder without them."
    )
  path = os.path.join(folder, TRANSFORMER_CONFIG)
  max_seq_length = None
  if paths.exists(path):
    value = json_files.read_object(path).get("max_seq_length")
    max_seq_length = json_files.check(value, int | None, path)
  pooling_folder = str(modules[1].get("path") or "")
  path = os.path.join(folder, pooling_folder, POOLING_CONFIG)
  config = json_files.read_object(path)
  modes = [config.get("pooling_mode")]  # Since sentence-transformers 5.4.
  if not modes[0]:
    modes = [
      _POOLINGS.get(name, name)
      for name, value in config.items()
      if name.startswith("pooling_mode_") and value
    ]
  if len(modes) != 1 or modes[0] not in _POOLINGS.values():
    raise ValueError(
      f"{path} sets the pooling {' and '.join(map(str, modes)) or '(none)'}; "
      f"set `pooling` to one of {', '.join(_POOLINGS.values())}."
    )
  return VectorSettings(str(modes[0]), "Normalize" in names, max_seq_length)
