"""The config.json of Hugging Face's models, and what it says in our terms."""

import dataclasses
import os
from collections.abc import Collection, Mapping
from typing import Any

from bert_tf import task_registry
from bert_tf.files import json_files, paths

CONFIG = "config.json"
# The ends of the names of weights: today's, and those of transformers 4.
SUFFIXES = (".safetensors", "tf_model.h5")

# Hugging Face's activations to ours. Their "gelu" is exact; ours is the tanh
# approximation, as in the 2018 release.
ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_pytorch_tanh": "gelu",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
}

# The only supported values.
FIXED_SETTINGS = {
  "model_type": "bert",
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
}

# What BERT does, by the keys of similar models, whose tensors can have BERT's
# names: BigBird, pre-norm models, MobileBERT, DeBERTa and NEZHA.
_OTHER_MODELS = {
  "attention_type": "original_full",
  "rescale_embeddings": False,
  "ln_type": "postln",
  "normalization_type": "layer_norm",
  "relative_attention": False,
  "use_relative_position": False,
}

# Our problem types to Hugging Face's.
PROBLEM_TYPES = {
  "classification": "single_label_classification",
  "regression": "regression",
  "multilabel": "multi_label_classification",
  "ranking": "regression",
}


@dataclasses.dataclass(frozen=True)
class Config:
  """The keys of config.json that this package reads, besides the sizes."""

  architectures: list[str] | None = None
  hidden_act: str | None = None
  id2label: dict[str, str] | None = None
  initializer_range: float = 0.02
  model_type: str | None = None
  problem_type: str | None = None
  # The activation of a cross-encoder; the second key is that before version 4.
  sentence_transformers: dict[str, Any] | None = None
  sbert_ce_default_activation_function: str | None = None


def is_weights(path: str) -> bool:
  """Whether a file has the name of weights that can be read."""
  return path.endswith(SUFFIXES)


def is_config(json_object: Mapping[str, Any], path: str) -> bool:
  """Whether a config is Hugging Face's.

  Those of 2019 lack the keys that tell, but are beside Hugging Face's weights.
  """
  if "model_type" in json_object or "architectures" in json_object:
    return True
  folder, name = os.path.split(path)
  names = paths.list_folder(folder or ".") if name == CONFIG else []
  return any(map(is_weights, names))


def read_config(folder: str) -> Config:
  """Reads config.json; raises the errors of json_files."""
  return json_files.read(os.path.join(folder, CONFIG), Config)


def original_config(
  config: Mapping[str, Any], names: Collection[str], path: str
) -> Mapping[str, Any]:
  """Converts a config of either form to a bert_config.json.

  `names` are the shared keys.

  Raises:
    ValueError: names all missing keys and all unsupported settings.
  """
  is_theirs = is_config(config, path)
  supported = {**FIXED_SETTINGS, **_OTHER_MODELS}
  if "hidden_size" in config:
    supported["embedding_size"] = config["hidden_size"]
  faults = [
    f"{name} is {config[name]!r} and must be {value!r}"
    for name, value in supported.items()
    if config.get(name, value) not in (value, None)
  ]
  hidden_act = config.get("hidden_act", "gelu")
  if is_theirs:
    json_files.check(config, Config, path)
    faults = [f"{n} is missing" for n in names if n not in config] + faults
    if hidden_act not in ACTIVATIONS:
      known = ", ".join(ACTIVATIONS)
      faults.append(f"hidden_act is {hidden_act!r} and must be one of {known}")
  if faults:
    raise ValueError(
      f"{path} describes an unsupported model: {'; '.join(faults)}."
    )
  if not is_theirs:
    return config
  names = (*names, "layer_norm_eps")  # Some files leave the latter out.
  values = {name: config[name] for name in names if name in config}
  return {**values, "hidden_act": ACTIVATIONS[hidden_act]}


def find_task(config: Config) -> task_registry.TaskSpec:
  """The task of the class in config.json; ENCODER if unknown."""
  for task in task_registry.TASKS.values():
    if set(task.hugging_face).intersection(config.architectures or ()):
      return task
  return task_registry.ENCODER


def numbered_labels(num_labels: int) -> tuple[str, ...]:
  """Names for unnamed labels, as transformers makes them."""
  return tuple(f"LABEL_{i}" for i in range(num_labels))
