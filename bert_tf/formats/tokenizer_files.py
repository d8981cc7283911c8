"""Files of a tokenizer: vocab.txt and the files that Hugging Face writes.

`tokenizer_config.json` and `tokenizer.json` can ask for a tokenizer that this
package does not implement. The ids of a text would then differ from those in
training, so `read_settings` lists every such setting.
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from absl import logging

from bert_tf.files import json_files, paths

VOCAB_FILE = "vocab.txt"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"
_ADDED_TOKENS = "added_tokens.json"
_SPECIAL_TOKENS = "special_tokens_map.json"
_CONFIG = "config.json"  # Some models name the tokenizer's class here.

# Settings that name special tokens, with BERT's tokens.
SPECIAL_TOKENS = {
  f"{name}_token": f"[{name.upper()}]"
  for name in ("pad", "unk", "cls", "sep", "mask")
}

# Settings of which only the default is supported.
FIXED_SETTINGS = {"tokenize_chinese_chars": True}
_OTHER_FIXED_SETTINGS = {
  "do_basic_tokenize": True,
  "do_word_tokenize": True,
  "do_subword_tokenize": True,
  "word_tokenizer_type": "basic",
  "subword_tokenizer_type": "wordpiece",
  "wordpieces_prefix": "##",
  "clean_text": True,
}

# Tokenizer classes that the settings and tokenizer.json describe completely.
_CLASSES = (
  "BertTokenizer",
  "ConvBertTokenizer",
  "DistilBertTokenizer",
  "ElectraTokenizer",
  "MobileBertTokenizer",
  "PreTrainedTokenizer",
  "SqueezeBertTokenizer",
  "TokenizersBackend",
)

# Parts of tokenizer.json, with their type in BERT and their fixed settings.
_PARTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
  "model": (
    "WordPiece",
    {"unk_token": "[UNK]", "continuing_subword_prefix": "##"},
  ),
  "normalizer": (
    "BertNormalizer",
    {"clean_text": True, "handle_chinese_chars": True},
  ),
  "pre_tokenizer": ("BertPreTokenizer", {}),
}


@dataclasses.dataclass(frozen=True)
class TokenizerSettings:
  """Settings of a tokenizer in Hugging Face's files."""

  # None if no file says it. True if tokenizer_config.json does not say it.
  do_lower_case: bool | None = None
  strip_accents: bool | None = None  # None: the same as do_lower_case.
  differing: tuple[str, ...] = ()  # Settings that are not implemented.

  def notes(self) -> tuple[str, ...]:
    """Returns sentences for the user; () for BERT's tokenizer."""
    if not self.differing:
      return ()
    return (
      "Its tokenizer is not implemented, so the ids of texts differ from those "
      f"in training: {'; '.join(self.differing)}",
    )


def find_vocab(folder: str) -> str | None:
  """Returns the path of vocab.txt, else of a WordPiece tokenizer.json.

  Returns None if the folder has neither.
  """
  path = os.path.join(folder, VOCAB_FILE)
  if paths.exists(path):
    return path
  path = os.path.join(folder, TOKENIZER)
  if not paths.exists(path):
    return None
  return path if _read_word_pieces(path) else None


def is_tokenizer_json(vocab_file: str) -> bool:
  """Returns whether the file of a vocabulary is a tokenizer.json."""
  return paths.split(vocab_file)[1] == TOKENIZER


def read_vocab(vocab_file: str) -> bytes:
  """Returns the content of a vocab.txt; converts a tokenizer.json.

  Raises:
    ValueError: if a tokenizer.json has no vocabulary of word pieces, ids with
      gaps, or a token with a line break.
  """
  if not is_tokenizer_json(vocab_file):
    return paths.read_bytes(vocab_file)
  vocab = _read_word_pieces(vocab_file)
  if not vocab:
    raise ValueError(
      f"{vocab_file} has no vocabulary of word pieces; give a vocab.txt."
    )
  tokens = {i: token for token, i in vocab.items() if type(i) is int}
  missing = [i for i in range(len(vocab)) if i not in tokens]
  if missing:
    raise ValueError(
      f"{vocab_file}: no token has the id {missing[0]}; the ids of its "
      f"{len(vocab)} tokens have to be 0 to {len(vocab) - 1}."
    )
  lines = [tokens[i] for i in range(len(vocab))]
  broken = [line for line in lines if "\n" in line]
  if broken:
    raise ValueError(f"{vocab_file}: the token {broken[0]!r} has a line break.")
  return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def _read_word_pieces(path: str) -> dict[str, Any]:
  """Returns the vocabulary of a tokenizer.json; {} if it is not WordPiece."""
  model = _get_object(json_files.read_object(path), "model", path)
  kind, vocab = _PARTS["model"][0], model.get("vocab")
  # Early versions of the format do not name the type.
  is_of_kind = model.get("type", kind) == kind and "merges" not in model
  return vocab if is_of_kind and isinstance(vocab, dict) else {}


@functools.cache  # Several parts of a command load the same tokenizer.
def warn_of_differing(vocab_file: str) -> None:
  """Warns once if the files next to a vocabulary ask for another tokenizer."""
  folder = paths.split(vocab_file)[0]
  for note in read_settings(folder).notes():
    logging.warning("%s: %s", folder or ".", note)


def read_settings(folder: str) -> TokenizerSettings:
  """Returns the settings of the tokenizer whose files are in a folder.

  Raises:
    ValueError: if a file is damaged.
  """
  config = _read_if_there(folder, TOKENIZER_CONFIG)
  tokenizer = _read_if_there(folder, TOKENIZER)
  path = os.path.join(folder, TOKENIZER)
  normalizer = _get_object(tokenizer or {}, "normalizer", path)
  lower, accents = normalizer.get("lowercase"), normalizer.get("strip_accents")
  if config is not None:
    lower = config.get("do_lower_case", True if lower is None else lower)
    accents = config.get("strip_accents", accents)
  for name, value in (("do_lower_case", lower), ("strip_accents", accents)):
    if not isinstance(value, bool | None):
      raise ValueError(
        f"{name} of the tokenizer in {folder} is {value!r:.80}; it has to be "
        "true or false."
      )
  return TokenizerSettings(
    lower, accents, tuple(_find_differing(folder, config or {}, tokenizer))
  )


def _find_differing(
  folder: str,
  config: Mapping[str, Any],
  tokenizer: Mapping[str, Any] | None,
) -> Iterator[str]:
  """Yields the settings that are not implemented, file by file."""
  by_file = {TOKENIZER_CONFIG: [*_differing_settings(config)]}
  if tokenizer is not None:
    parts = _differing_parts(tokenizer, os.path.join(folder, TOKENIZER))
    by_file[TOKENIZER] = [*parts, *_differing_vocab(folder)]
  if "tokenizer_class" not in config:
    model_config = _read_if_there(folder, _CONFIG) or {}
    by_file[_CONFIG] = [*_differing_class(model_config)]
  special = _read_if_there(folder, _SPECIAL_TOKENS) or {}
  by_file[_SPECIAL_TOKENS] = [*_differing_tokens(special)]
  added = _read_if_there(folder, _ADDED_TOKENS)
  by_file[_ADDED_TOKENS] = [*_list_others("added tokens", added)]
  for file, settings in by_file.items():
    if settings:
      yield f"{', '.join(settings)} ({file})"


def _differing_settings(config: Mapping[str, Any]) -> Iterator[str]:
  """Yields the settings of tokenizer_config.json that are not implemented."""
  yield from _differing_class(config)
  for name, value in {**FIXED_SETTINGS, **_OTHER_FIXED_SETTINGS}.items():
    if config.get(name, value) not in (value, None):
      yield f"{name} {config[name]}"
  yield from _list_others("never_split", config.get("never_split"))
  yield from _differing_tokens(config)
  decoder = config.get("added_tokens_decoder")
  added = decoder.values() if isinstance(decoder, dict) else decoder
  yield from _list_others("added tokens", added)


def _differing_class(config: Mapping[str, Any]) -> Iterator[str]:
  name = config.get("tokenizer_class")
  if name and str(name).removesuffix("Fast") not in _CLASSES:
    yield f"tokenizer_class {name}"


def _differing_tokens(config: Mapping[str, Any]) -> Iterator[str]:
  """Yields the special tokens that are not BERT's."""
  for name, token in SPECIAL_TOKENS.items():
    value = _get_content(config.get(name) or token)
    if value != token:
      yield f"{name} {value}"
  for name in ("additional_special_tokens", "extra_special_tokens"):
    tokens = config.get(name)
    tokens = tokens.values() if isinstance(tokens, dict) else tokens
    yield from _list_others(name, tokens)


def _differing_parts(tokenizer: Mapping[str, Any], path: str) -> Iterator[str]:
  """Yields the parts of tokenizer.json that are not implemented."""
  for name, (kind, fixed) in _PARTS.items():
    if name not in tokenizer:  # A missing part is the default; null is not.
      continue
    part = _get_object(tokenizer, name, path)
    default = kind if name == "model" and "merges" not in part else None
    if part.get("type", default) != kind:
      yield f"{name} {part.get('type')}"
      continue
    for setting, value in fixed.items():
      if part.get(setting, value) != value:
        yield f"{setting} {part[setting]}"
  yield from _list_others("added tokens", tokenizer.get("added_tokens"))


def _differing_vocab(folder: str) -> Iterator[str]:
  """Yields a note if vocab.txt and tokenizer.json have different tokens."""
  path = os.path.join(folder, VOCAB_FILE)
  other_path = os.path.join(folder, TOKENIZER)
  if paths.exists(path) and _read_word_pieces(other_path):
    if paths.read_bytes(path).split() != read_vocab(other_path).split():
      yield f"other tokens than {VOCAB_FILE}, which is used"


def _list_others(name: str, tokens: Any) -> Iterator[str]:
  """Yields one text, NAME TOKENS, if some are not BERT's special tokens."""
  if not isinstance(tokens, Iterable) or isinstance(tokens, str):
    tokens = [tokens] if tokens else []
  contents = dict.fromkeys(_get_content(token) for token in tokens)
  others = [c for c in contents if c not in SPECIAL_TOKENS.values()]
  if others:
    suffix = f" and {len(others) - 3} more" if len(others) > 3 else ""
    yield f"{name} {' '.join(others[:3])}{suffix}"


def _get_content(token: Any) -> str:
  """Returns the text of a token. Some files store tokens as objects."""
  return str(token.get("content")) if isinstance(token, dict) else str(token)


def _get_object(
  values: Mapping[str, Any], name: str, path: str
) -> dict[str, Any]:
  """Returns a nested object; {} if it is null or missing."""
  value = values.get(name) or {}
  if not isinstance(value, dict):
    raise ValueError(f"{path}: {name} is not a JSON object.")
  return value


def _read_if_there(folder: str, name: str) -> dict[str, Any] | None:
  path = os.path.join(folder, name)
  return json_files.read_object(path) if paths.exists(path) else None
