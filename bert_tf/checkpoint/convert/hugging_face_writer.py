"""Writes Hugging Face's format, the folder of `save_pretrained`."""

import glob
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import modeling, tokenization
from bert_tf.checkpoint import hugging_face, run_info
from bert_tf.checkpoint.convert import pretrained
from bert_tf.files import atomic, packages, paths, tokenizer_files
from bert_tf.model import heads, hugging_face_config

# Hugging Face's names of activations that have another name here.
_ACTIVATIONS_THERE = {"gelu_erf": "gelu", "gelu": "gelu_new", "": "linear"}


def write(model: pretrained.Pretrained, folder: str) -> None:
  """Writes a folder that `from_pretrained` of Hugging Face's classes can load.

  The folder may hold an earlier conversion of the same model.
  """
  with packages.needs_extra(hugging_face.WEIGHTS, extra="hf"):
    from safetensors import numpy as safetensors

  contents = _contents(model)
  own = {*contents, hugging_face.WEIGHTS, *run_info.FILES}
  own |= {name.split("/")[0] for name in model.encoder_files}
  for name in own:  # Of a conversion that was killed.
    atomic.remove_unfinished(os.path.join(glob.escape(folder), name))
  existing = paths.list_folder(folder) if paths.exists(folder) else []
  if others := sorted(set(existing) - own):
    # transformers might load them with the model.
    raise ValueError(
      f"`output_checkpoint` {folder} holds other files: {', '.join(others)}."
    )
  pretrained.check_contents(folder, contents)
  # transformers omits the encoder's prefix if a model has no head.
  prefix = "bert." if model.own_heads else ""
  tensors = {
    hugging_face.hugging_face_name(name, prefix): np.ascontiguousarray(
      value.T if name.endswith("/kernel") else value
    )
    for name, value in model.tensors.items()
  }
  if heads.CHOICES in model.own_heads:
    tensors[hugging_face.CHOICE_BIAS] = np.zeros(1, np.float32)
  # transformers refuses files without this key.
  data = safetensors.save(tensors, metadata={"format": "pt"})
  pretrained.write_files(folder, model)
  for name, content in {**contents, hugging_face.WEIGHTS: data}.items():
    atomic.write_bytes(os.path.join(folder, name), content)


def _contents(model: pretrained.Pretrained) -> dict[str, bytes]:
  if model.vocab is None:
    raise ValueError("Hugging Face's format needs a `vocab_file`.")
  vocab = tokenization.parse_vocab(model.vocab, run_info.VOCAB_FILE)
  special = {
    name: token
    for name, token in tokenizer_files.SPECIAL_TOKENS.items()
    if token in vocab
  }
  tokenizer_config = {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": model.run.settings.do_lower_case is not False,
    "strip_accents": model.run.settings.strip_accents,
    **tokenizer_files.FIXED_SETTINGS,
    "model_max_length": model.config.max_position_embeddings,
    **special,
  }
  contents = {
    hugging_face_config.CONFIG: _config(model, vocab),
    tokenizer_files.TOKENIZER_CONFIG: tokenizer_config,
    tokenizer_files.TOKENIZER: _tokenizer(
      model.run, vocab, [*special.values()]
    ),
  }
  texts = {
    name: json.dumps(
      content,
      indent=2,
      sort_keys=name != tokenizer_files.TOKENIZER,  # Its vocabulary has ids.
      ensure_ascii=False,
    )
    for name, content in contents.items()
  }
  return {name: f"{text}\n".encode() for name, text in texts.items()}


def _config(
  model: pretrained.Pretrained, vocab: Mapping[str, int]
) -> dict[str, Any]:
  own_heads = model.own_heads
  if own_heads == heads.PretrainingModel.heads:
    class_name = "BertForPreTraining"
  elif len(own_heads) > 1:
    names = ", ".join(head.name for head in own_heads)
    raise ValueError(f"no class of transformers has all the heads {names}.")
  else:
    class_name = own_heads[0].hugging_face if own_heads else "BertModel"
  hidden_act = (model.config.hidden_act or "").lower()
  keys = modeling.BertConfig.original_keys()
  config: dict[str, Any] = {
    **{key: getattr(model.config, key) for key in (*keys, "layer_norm_eps")},
    **hugging_face_config.FIXED_SETTINGS,
    "architectures": [class_name],
    "hidden_act": _ACTIVATIONS_THERE.get(hidden_act, hidden_act),
    "pad_token_id": vocab.get("[PAD]", 0),
  }
  if heads.CHOICES in own_heads or model.num_labels:
    config["classifier_dropout"] = heads.CLASSIFIER_DROPOUT
  if model.num_labels:
    spec = model.run.labels
    labels = spec.labels if spec else ()
    labels = labels or hugging_face_config.numbered_labels(model.num_labels)
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    if spec and spec.problem_type in hugging_face_config.PROBLEM_TYPES:
      problem_type = hugging_face_config.PROBLEM_TYPES[spec.problem_type]
      config["problem_type"] = problem_type
  return config


def _tokenizer(
  run: run_info.RunInfo, vocab: Mapping[str, int], special: list[str]
) -> dict[str, Any]:
  # transformers writes 100 as the maximum length of a word, not 200.
  ends = (tokenization.CLS, tokenization.SEP)
  cls, sep, sep_b = (
    {"SpecialToken": {"id": token, "type_id": type_id}}
    for token, type_id in zip((*ends, tokenization.SEP), (0, 0, 1))
  )
  text, text_b = (
    {"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB")
  )
  post_processor = {
    "type": "TemplateProcessing",
    "single": [cls, text, sep],
    "pair": [cls, text, sep, text_b, sep_b],
    "special_tokens": {
      token: {"id": token, "ids": [vocab.get(token)], "tokens": [token]}
      for token in ends
    },
  }
  return {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
      {
        "id": vocab[token],
        "content": token,
        **dict.fromkeys(("single_word", "lstrip", "rstrip"), False),
        "normalized": False,
        "special": True,
      }
      for token in sorted(special, key=lambda token: vocab[token])
    ],
    "normalizer": {
      "type": "BertNormalizer",
      "clean_text": True,
      "handle_chinese_chars": True,
      "strip_accents": run.settings.strip_accents,
      "lowercase": run.settings.do_lower_case is not False,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": post_processor if vocab.keys() >= {*ends} else None,
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
      "type": "WordPiece",
      "unk_token": tokenization.UNK,
      "continuing_subword_prefix": "##",
      "max_input_chars_per_word": tokenization.MAX_INPUT_CHARS_PER_WORD,
      "vocab": vocab,
    },
  }
