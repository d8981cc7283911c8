"""Makes the text of Hugging Face's config.json and tokenizer files."""

import json
from collections.abc import Mapping
from typing import Any

from bert_tf import heads, modeling, tokenization
from bert_tf.convert import pretrained
from bert_tf.formats import hugging_face, tokenizer_files

# Hugging Face's names of activations, by hidden_act of bert_config.json.
_ACTIVATIONS_THERE = {
  "gelu_erf": "gelu",
  "gelu": "gelu_new",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
  "": "linear",
}

# The class with both pre-training heads. Head.hugging_face names the class with
# one head.
_PRETRAINING_CLASS = "BertForPreTraining"


def texts(model: pretrained.Pretrained) -> dict[str, str]:
  """Returns the text of config.json and of the tokenizer's files, by name.

  Raises:
    ValueError: without a vocabulary, or if no class has the model's heads.
  """
  if model.vocab_file is None:
    raise ValueError(
      "Hugging Face's format needs the vocabulary, but there is no vocab.txt "
      "or tokenizer.json beside the checkpoint; give `vocab_file`."
    )
  vocab = model.vocab()
  return {
    hugging_face.CONFIG: _to_json(_config(model, vocab)),
    tokenizer_files.TOKENIZER_CONFIG: _to_json(_tokenizer_config(model, vocab)),
    tokenizer_files.TOKENIZER: json.dumps(
      _tokenizer(model, vocab), indent=2, ensure_ascii=False
    )
    + "\n",
  }


def _config(
  model: pretrained.Pretrained, tokens: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the content of config.json."""
  names = modeling.BertConfig.original_keys()
  sizes = {name: getattr(model.config, name) for name in names}
  return {
    **sizes,
    **hugging_face.FIXED_SETTINGS,
    "architectures": [_class(model)],
    "hidden_act": _ACTIVATIONS_THERE[(model.config.hidden_act or "").lower()],
    "pad_token_id": tokens.get("[PAD]", 0),
    **_classifier_settings(model),
  }


def _class(model: pretrained.Pretrained) -> str:
  """Returns the class with a model's heads; ValueError for other heads."""
  own_heads = model.own_heads
  if own_heads == heads.PretrainingModel.heads:
    return _PRETRAINING_CLASS
  if len(own_heads) > 1:
    names = pretrained.join_head_names(own_heads)
    raise ValueError(f"no class of transformers has all the heads {names}.")
  return own_heads[0].hugging_face[0] if own_heads else "BertModel"


def _classifier_settings(model: pretrained.Pretrained) -> dict[str, Any]:
  """Returns the keys of config.json for a classifier's head; {} without one."""
  if heads.CHOICES in model.own_heads:
    return {"classifier_dropout": heads.CLASSIFIER_DROPOUT}
  if not model.num_labels:
    return {}
  labels = model.run.labels or hugging_face.numbered_labels(model.num_labels)
  settings: dict[str, Any] = {
    "classifier_dropout": heads.CLASSIFIER_DROPOUT,
    "id2label": {str(i): label for i, label in enumerate(labels)},
    "label2id": {label: i for i, label in enumerate(labels)},
  }
  if model.run.task == "classification" and model.run.problem_type:
    kinds = hugging_face.PROBLEM_TYPES
    settings["problem_type"] = kinds[model.run.problem_type]
  return settings


def _tokenizer_config(
  model: pretrained.Pretrained, tokens: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the content of tokenizer_config.json."""
  special = {
    name: token
    for name, token in tokenizer_files.SPECIAL_TOKENS.items()
    if token in tokens
  }
  return {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": model.run.do_lower_case is not False,
    "strip_accents": model.run.strip_accents,
    **tokenizer_files.FIXED_SETTINGS,
    "model_max_length": model.config.max_position_embeddings,
    **special,
  }


def _tokenizer(
  model: pretrained.Pretrained, tokens: Mapping[str, int]
) -> dict[str, Any]:
  """Returns the content of tokenizer.json, for tokenizers and transformers.js.

  The maximum length of a word is the original's 200 characters; transformers
  writes 100.
  """
  special = [
    _added_token(token, tokens[token])
    for token in tokenizer_files.SPECIAL_TOKENS.values()
    if token in tokens
  ]
  word_pieces = {
    "type": "WordPiece",
    "unk_token": tokenization.UNK,
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": tokenization.MAX_INPUT_CHARS_PER_WORD,
    "vocab": tokens,
  }
  normalizer = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": model.run.strip_accents,
    "lowercase": model.run.do_lower_case is not False,
  }
  return {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": sorted(special, key=lambda token: token["id"]),
    "normalizer": normalizer,
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": _post_processor(tokens),
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": word_pieces,
  }


def _added_token(token: str, token_id: int) -> dict[str, Any]:
  """Returns the entry of a special token in tokenizer.json."""
  return {
    "id": token_id,
    "content": token,
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
  }


def _post_processor(tokens: Mapping[str, int]) -> dict[str, Any] | None:
  """Returns the template that adds [CLS] and [SEP] to a text or a pair."""
  ends = (tokenization.CLS, tokenization.SEP)
  if not all(token in tokens for token in ends):
    return None
  cls, sep = ({"SpecialToken": {"id": token, "type_id": 0}} for token in ends)
  text = {"Sequence": {"id": "A", "type_id": 0}}
  text_b = {"Sequence": {"id": "B", "type_id": 1}}
  sep_b = {"SpecialToken": {"id": tokenization.SEP, "type_id": 1}}
  return {
    "type": "TemplateProcessing",
    "single": [cls, text, sep],
    "pair": [cls, text, sep, text_b, sep_b],
    "special_tokens": {
      token: {"id": token, "ids": [tokens[token]], "tokens": [token]}
      for token in ends
    },
  }


def _to_json(value: Mapping[str, Any]) -> str:
  return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
