"""config.json and tokenizer_config.json of Hugging Face's folders."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf import modeling
from bert_tf.convert import pretrained
from bert_tf.tasks import label_map

CONFIG = "config.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"

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
_ACTIVATIONS_THERE = {
  "gelu_erf": "gelu",
  "gelu": "gelu_new",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
  "": "linear",
  None: "linear",
}

# Settings that this model has one value of; a file without them has it too.
_FIXED_SETTINGS = {
  "model_type": "bert",
  "layer_norm_eps": 1e-12,
  "position_embedding_type": "absolute",
  "is_decoder": False,
  "add_cross_attention": False,
}

# The class for a model's heads; that of words is _WORDS_CLASS.
_CLASSES = {
  (): "BertModel",
  ("cls/predictions", "cls/seq_relationship"): "BertForPreTraining",
  ("cls/predictions",): "BertForMaskedLM",
  ("cls/seq_relationship",): "BertForNextSentencePrediction",
  ("cls/squad",): "BertForQuestionAnswering",
  ("output_weights",): "BertForSequenceClassification",
  (pretrained.CHOICE_WEIGHTS,): "BertForMultipleChoice",
}
_WORDS_CLASS = "BertForTokenClassification"

# What is learned, here and there.
_PROBLEM_TYPES = {
  "classification": "single_label_classification",
  "regression": "regression",
  "multilabel": "multi_label_classification",
}

# What FullTokenizer always does; None follows do_lower_case.
_FIXED_TOKENIZER_SETTINGS = {
  "strip_accents": None,
  "tokenize_chinese_chars": True,
}

# Of the inputs of these heads; see heads.py.
_HEAD_DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
  """What tokenizer_config.json says.

  Attributes:
    do_lower_case: None where it is not there.
    differing: what FullTokenizer does in another way.
  """

  do_lower_case: bool | None = None
  differing: tuple[str, ...] = ()

  def notes(self) -> list[str]:
    """Returns what its user should know."""
    notes = []
    if self.do_lower_case is not None:
      notes.append(
        f"Use it with --do_lower_case={str(self.do_lower_case).lower()}"
      )
    if self.differing:
      notes.append(
        "Its tokenizer differs from the original's, so ids will, in: "
        f"{', '.join(self.differing)}"
      )
    return notes


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


def head_of_classifier(hf_config: Mapping[str, Any]) -> str:
  """Returns which of pretrained.HEADS a `classifier.` of the file is."""
  if "BertForMultipleChoice" in _architectures(hf_config):
    return pretrained.CHOICE_WEIGHTS
  return "output_weights"


def read_task(
  hf_config: Mapping[str, Any], num_labels: int
) -> label_map.LabelSpec | None:
  """Returns the labels of a classifier; None where the file has none.

  Raises:
    ValueError: if there are not num_labels of them.
  """
  names = hf_config.get("id2label")
  ids = [str(i) for i in range(num_labels)]
  if names is not None and sorted(names) != sorted(ids):
    raise ValueError(
      f"id2label of config.json has the ids {', '.join(sorted(names))}, but "
      f"the classifier has {num_labels} labels."
    )
  labels = pretrained.numbered_labels(num_labels)
  if names is not None:
    labels = [names[i] for i in ids]
  if _WORDS_CLASS in _architectures(hf_config):
    return label_map.LabelSpec("ner", label_map.WORDS, tuple(labels))
  there = {value: key for key, value in _PROBLEM_TYPES.items()}
  problem_type = there.get(hf_config.get("problem_type"))
  if problem_type is None and names is None:
    return None
  if problem_type is None:
    # What transformers makes of it.
    problem_type = "regression" if num_labels == 1 else "classification"
  if problem_type == "regression":
    labels = []
  return label_map.LabelSpec("own data", problem_type, tuple(labels))


def read_tokenizer_settings(folder: str) -> TokenizerSettings:
  """Returns what tokenizer_config.json says, nothing without one."""
  path = os.path.join(folder, _TOKENIZER_CONFIG)
  if not os.path.isfile(path):
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


def with_case(model: pretrained.Pretrained) -> pretrained.Pretrained:
  """Returns the model with do_lower_case, taken from its words if need be.

  Raises:
    ValueError: without a vocabulary.
  """
  if model.vocab is None:
    raise ValueError(
      "Hugging Face's form holds the vocabulary, and there is no vocab.txt "
      "beside the checkpoint; give --vocab_file."
    )
  if model.do_lower_case is not None:
    return model
  has_capitals = any(
    token.lower() != token
    for token in model.tokens
    if not (token.startswith("[") and token.endswith("]"))
  )
  said = "no capital letter" if not has_capitals else "capital letters"
  note = (
    f"The vocabulary has {said}: tokenizer_config.json has do_lower_case "
    f"{str(not has_capitals).lower()}."
  )
  return dataclasses.replace(
    model, do_lower_case=not has_capitals, notes=(*model.notes, note)
  )


def texts(model: pretrained.Pretrained) -> dict[str, str]:
  """Returns the files of a folder, but for the weights, by name.

  Args:
    model: with a vocabulary and do_lower_case.

  Raises:
    ValueError: if no class has the model's heads.
  """
  tokens = {token: i for i, token in enumerate(model.tokens)}
  return {
    CONFIG: _to_json(_config(model, tokens)),
    "vocab.txt": model.vocab,
    _TOKENIZER_CONFIG: _to_json(_tokenizer_config(model, tokens)),
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
  if model.heads not in _CLASSES:
    raise ValueError(
      f"no class of Hugging Face's has all the heads {', '.join(model.heads)}."
    )
  is_words = model.heads == ("output_weights",) and model.labels_words
  return _WORDS_CLASS if is_words else _CLASSES[model.heads]


def _classifier_settings(model: pretrained.Pretrained) -> dict[str, Any]:
  """Returns what config.json says of a classifier's head."""
  if pretrained.CHOICE_WEIGHTS in model.heads:
    return {"classifier_dropout": _HEAD_DROPOUT}
  if "output_weights" not in model.heads:
    return {}
  num_labels = len(model.tensors["output_bias"])
  labels = model.task.labels if model.task else ()
  labels = labels or pretrained.numbered_labels(num_labels)
  if len(labels) != num_labels:
    raise ValueError(
      f"{label_map.FILE} has {len(labels)} labels, but the classifier has "
      f"{num_labels}."
    )
  settings = {
    "classifier_dropout": _HEAD_DROPOUT,
    "id2label": {str(i): label for i, label in enumerate(labels)},
    "label2id": {label: i for i, label in enumerate(labels)},
  }
  if model.task and not model.labels_words:
    settings["problem_type"] = _PROBLEM_TYPES[model.task.problem_type]
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
    "do_lower_case": model.do_lower_case,
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


def _architectures(hf_config: Mapping[str, Any]) -> Sequence[str]:
  return hf_config.get("architectures") or ()


def _to_json(value: Mapping[str, Any]) -> str:
  return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


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
