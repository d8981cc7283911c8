"""Reads and writes config.json and tokenizer_config.json of Hugging Face."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from bert_tf import heads, modeling
from bert_tf.convert import pretrained
from bert_tf.files import paths
from bert_tf.training import run_dir

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"

# Names of activations there to those here. There "gelu" is the exact one, here
# it is the tanh approximation, as in the original.
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_pytorch_tanh": "gelu",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
}
_ACTIVATIONS_THERE = {
  "gelu_erf": "gelu",
  "gelu": "gelu_new",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
  "": "linear",
  None: "linear",
}

# Settings of which this model supports one value, the default of the file.
_FIXED_SETTINGS = {
  "model_type": "bert",
  "layer_norm_eps": 1e-12,
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
}

# The class for two heads; Head.hugging_face names that for one.
_PRETRAINING_CLASS = "BertForPreTraining"

# Problem types here to those there.
_PROBLEM_TYPES = {
  "classification": "single_label_classification",
  "regression": "regression",
  "multilabel": "multi_label_classification",
}

# Fixed behaviour of FullTokenizer; None follows do_lower_case.
_FIXED_TOKENIZER_SETTINGS = {
  "strip_accents": None,
  "tokenize_chinese_chars": True,
}


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
  """Settings in tokenizer_config.json.

  Attributes:
    do_lower_case: None without the file.
    differing: settings that FullTokenizer does not have.
  """

  do_lower_case: bool | None = None
  differing: tuple[str, ...] = ()

  def notes(self) -> list[str]:
    """Returns what the user should know."""
    if not self.differing:
      return []
    return [
      "Its tokenizer differs from the original's, so ids will, in: "
      f"{', '.join(self.differing)}"
    ]


def read_config(folder: str) -> dict[str, Any]:
  """Returns the object of config.json; raises ValueError without one."""
  return _read_json(os.path.join(folder, CONFIG))


def bert_config(hf_config: Mapping[str, Any]) -> modeling.BertConfig:
  """Returns the config of the same model.

  Args:
    hf_config: the object of a config.json.

  Raises:
    ValueError: naming all sizes that are missing and all settings that this
      model does not have.
  """
  names = _size_names()
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


def classifier_head(hf_config: Mapping[str, Any]) -> heads.Head:
  """Returns the head that the file calls `classifier`."""
  architectures = hf_config.get("architectures") or ()
  for head in (heads.WORD_LABELS, heads.CHOICES):
    if head.hugging_face[0] in architectures:
      return head
  return heads.TEXT_LABELS


def with_labels(
  run: run_dir.RunInfo, hf_config: Mapping[str, Any], num_labels: int
) -> run_dir.RunInfo:
  """Returns a run with its labels and problem type, as far as they are known.

  Raises:
    ValueError: if there are not num_labels of them.
  """
  if not num_labels:
    return run
  names = hf_config.get("id2label")
  ids = [str(i) for i in range(num_labels)]
  if names is not None and sorted(names) != sorted(ids):
    raise ValueError(
      f"id2label of config.json has the ids {', '.join(sorted(names))}, but "
      f"the classifier has {num_labels} labels."
    )
  labels = pretrained.numbered_labels(num_labels)
  if names is not None:
    labels = tuple(names[i] for i in ids)
  if run.task == "ner":
    return dataclasses.replace(run, labels=labels)
  there = {value: key for key, value in _PROBLEM_TYPES.items()}
  problem_type = there.get(hf_config.get("problem_type", ""))
  if problem_type is None and names is None:
    return run
  if problem_type is None:
    # As transformers decides it.
    problem_type = "regression" if num_labels == 1 else "classification"
  if problem_type == "regression":
    labels = ()
  return dataclasses.replace(run, problem_type=problem_type, labels=labels)


def read_tokenizer_settings(folder: str) -> TokenizerSettings:
  """Returns the settings in tokenizer_config.json; none without the file."""
  path = os.path.join(folder, TOKENIZER_CONFIG)
  if not paths.exists(path):
    return TokenizerSettings()
  settings = _read_json(path)
  do_lower_case = settings.get("do_lower_case", True)
  # Accents are stripped where letters are lowered.
  same = {"strip_accents": (None, do_lower_case)}
  differing = [
    f"{name} {settings[name]}"
    for name, value in _FIXED_TOKENIZER_SETTINGS.items()
    if settings.get(name, value) not in same.get(name, (value,))
  ]
  return TokenizerSettings(do_lower_case, tuple(differing))


def texts(model: pretrained.Pretrained) -> dict[str, str]:
  """Returns the text of config.json and of tokenizer_config.json, by name.

  Raises:
    ValueError: without a vocabulary, or if no class has the model's heads.
  """
  if model.vocab_file is None:
    raise ValueError(
      "Hugging Face's format holds the vocabulary, and there is no vocab.txt "
      "beside the checkpoint; give --vocab_file."
    )
  vocab = model.vocab()
  return {
    CONFIG: _to_json(_config(model, vocab)),
    TOKENIZER_CONFIG: _to_json(_tokenizer_config(model, vocab)),
  }


def _config(
  model: pretrained.Pretrained, tokens: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the object of config.json."""
  sizes = {name: getattr(model.config, name) for name in _size_names()}
  return {
    **sizes,
    **_FIXED_SETTINGS,
    "architectures": [_class(model)],
    "hidden_act": _ACTIVATIONS_THERE[_lowered(model.config.hidden_act)],
    "pad_token_id": tokens.get("[PAD]", 0),
    **_classifier_settings(model),
  }


def _class(model: pretrained.Pretrained) -> str:
  """Returns the name of the class for a model's heads."""
  own_heads = model.own_heads
  if own_heads == heads.PretrainingModel.heads:
    return _PRETRAINING_CLASS
  if len(own_heads) > 1:
    names = pretrained.names_of(own_heads)
    raise ValueError(f"no class of Hugging Face's has all the heads {names}.")
  return own_heads[0].hugging_face[0] if own_heads else "BertModel"


def _classifier_settings(model: pretrained.Pretrained) -> dict[str, Any]:
  """Returns what config.json says of a classifier's head."""
  if heads.CHOICES in model.own_heads:
    return {"classifier_dropout": heads.CLASSIFIER_DROPOUT}
  if not model.num_labels:
    return {}
  labels = model.run.labels or pretrained.numbered_labels(model.num_labels)
  settings: dict[str, Any] = {
    "classifier_dropout": heads.CLASSIFIER_DROPOUT,
    "id2label": {str(i): label for i, label in enumerate(labels)},
    "label2id": {label: i for i, label in enumerate(labels)},
  }
  if model.run.task == "classification" and model.run.problem_type:
    settings["problem_type"] = _PROBLEM_TYPES[model.run.problem_type]
  return settings


def _tokenizer_config(
  model: pretrained.Pretrained, tokens: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the object of tokenizer_config.json."""
  special = {
    f"{name}_token": f"[{name.upper()}]"
    for name in ("unk", "sep", "pad", "cls", "mask")
    if f"[{name.upper()}]" in tokens
  }
  return {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": model.run.do_lower_case is not False,
    **_FIXED_TOKENIZER_SETTINGS,
    "model_max_length": model.config.max_position_embeddings,
    **special,
  }


def _lowered(name: str | None) -> str | None:
  return name.lower() if name else name


def _size_names() -> list[str]:
  """Returns the keys that config.json and bert_config.json have in common."""
  names = [field.name for field in dataclasses.fields(modeling.BertConfig)]
  names.remove("unknown")
  return names


def _to_json(value: Mapping[str, Any]) -> str:
  return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _read_json(path: str) -> dict[str, Any]:
  """Returns the object of a file; raises ValueError if it is none."""
  try:
    value = json.loads(paths.read_text(path))
  except FileNotFoundError:
    raise ValueError(f"there is no {path}.") from None
  except ValueError as error:
    raise ValueError(f"{path} is no JSON: {error}.") from None
  if not isinstance(value, dict):
    raise ValueError(f"{path} is no JSON object.")
  return value
