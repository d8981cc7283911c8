"""Files of a tokenizer: vocab.txt and the files that Hugging Face writes.

These can ask for a tokenizer that this package does not implement. The ids of a
text would then differ from those in training, which is warned of.
"""

import dataclasses
import functools
import os
from typing import Any

from absl import logging

from bert_tf.files import json_files, messages, paths

VOCAB_FILE = "vocab.txt"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"

# Settings of special tokens.
SPECIAL_TOKENS = {
  f"{name}_token": f"[{name.upper()}]"
  for name in ("pad", "unk", "cls", "sep", "mask")
}

FIXED_SETTINGS = {"tokenize_chinese_chars": True}
# The only supported values, of settings or of the parts of tokenizer.json.
_SUPPORTED: dict[str, Any] = {
  **FIXED_SETTINGS,
  **SPECIAL_TOKENS,
  "do_basic_tokenize": True,
  "word_tokenizer_type": "basic",
  "subword_tokenizer_type": "wordpiece",
  "truncation_side": "right",
  "model type": "WordPiece",
  "model unk_token": "[UNK]",
  "model continuing_subword_prefix": "##",
  "normalizer type": "BertNormalizer",
  "normalizer clean_text": True,
  "normalizer handle_chinese_chars": True,
  "pre_tokenizer type": "BertPreTokenizer",
}
# The ends of supported tokenizer classes, such as DistilBertTokenizer.
_CLASSES = (
  *("BertTokenizer", "ElectraTokenizer"),
  *("PreTrainedTokenizer", "TokenizersBackend"),
)


@dataclasses.dataclass(frozen=True)
class Case:
  """The two settings of letter case; None for one that is not known."""

  do_lower_case: bool | None = None
  strip_accents: bool | None = None  # If None, the same as do_lower_case.


def _read_tokenizer(path: str) -> dict[str, Any]:
  """Returns the parts of a tokenizer.json in one dict; {} without the file.

  The names are those of `_SUPPORTED`. A part that is null has the type "None".
  """
  if not paths.exists(path):
    return {}
  flat: dict[str, Any] = {}
  for name, part in json_files.read_object(path).items():
    if name in ("model", "normalizer", "pre_tokenizer"):
      values = {"type": "None"} if part is None else part
      values = json_files.check(values, dict[str, Any], f"{name} of {path}")
      flat |= {f"{name} {key}": value for key, value in values.items()}
    elif name == "added_tokens":
      flat[name] = json_files.check(part, list[Any] | None, f"{name} of {path}")
  return flat


def _word_pieces(tokenizer: dict[str, Any]) -> dict[str, Any]:
  """Returns the ids by token; {} unless the model is a WordPiece."""
  vocab = tokenizer.get("model vocab")
  # Early versions of the format do not name the type.
  is_word_piece = tokenizer.get("model type", "WordPiece") == "WordPiece"
  if "model merges" in tokenizer or not isinstance(vocab, dict):
    return {}
  return vocab if is_word_piece else {}


def find_vocab(folder: str) -> str | None:
  """Returns the path of vocab.txt, of a WordPiece tokenizer.json, or None."""
  path = os.path.join(folder, VOCAB_FILE)
  if paths.exists(path):
    return path
  path = os.path.join(folder, TOKENIZER)
  return path if _word_pieces(_read_tokenizer(path)) else None


def is_tokenizer_json(vocab_file: str) -> bool:
  """Returns whether a vocabulary is in a tokenizer.json, not a vocab.txt."""
  return os.path.basename(vocab_file) == TOKENIZER


def read_vocab(vocab_file: str) -> bytes:
  """Reads a vocab.txt; converts a tokenizer.json.

  Raises:
    ValueError: if a tokenizer.json has no word pieces or ids with gaps.
  """
  if not is_tokenizer_json(vocab_file):
    return paths.read_bytes(vocab_file)
  vocab = _word_pieces(_read_tokenizer(vocab_file))
  if not vocab:
    raise ValueError(f"{vocab_file} has no vocabulary of word pieces.")
  ids = json_files.check(vocab, dict[str, int], f"the vocab of {vocab_file}")
  tokens = {i: token for token, i in ids.items()}
  if missing := [i for i in range(len(vocab)) if i not in tokens]:
    raise ValueError(f"{vocab_file}: no token has the id {missing[0]}.")
  lines = [tokens[i] for i in range(len(vocab))]
  if broken := [line for line in lines if "\n" in line]:
    raise ValueError(f"{vocab_file}: the token {broken[0]!r} has a line break.")
  return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def read_case(folder: str) -> Case:
  """Returns the letter case of the tokenizer whose files are in a folder.

  Without a word about it, tokenizer_config.json means lower case.

  Raises:
    ValueError: if a file is damaged.
  """
  tokenizer = _read_tokenizer(os.path.join(folder, TOKENIZER))
  lower = tokenizer.get("normalizer lowercase")
  accents = tokenizer.get("normalizer strip_accents")
  config = json_files.find_object(folder, TOKENIZER_CONFIG)
  if config is not None:
    lower = config.get("do_lower_case", True if lower is None else lower)
    accents = config.get("strip_accents", accents)
  where = f"the tokenizer in {folder}"
  return Case(
    json_files.check(lower, bool | None, f"do_lower_case of {where}"),
    json_files.check(accents, bool | None, f"strip_accents of {where}"),
  )


@functools.cache  # Several parts of a command load the same tokenizer.
def warn_of_differing(vocab_file: str) -> None:
  """Warns once if the files next to a vocabulary ask for another tokenizer."""
  folder = os.path.dirname(vocab_file)
  # Older versions of transformers write two of the files.
  config, special, added_ids = (
    json_files.find_object(folder, name) or {}
    for name in (
      TOKENIZER_CONFIG,
      "special_tokens_map.json",
      "added_tokens.json",
    )
  )
  tokenizer = _read_tokenizer(os.path.join(folder, TOKENIZER))

  def content(token: Any) -> Any:  # Some files store tokens as objects.
    return token.get("content") if isinstance(token, dict) else token

  given = {**tokenizer, **special, **config}
  differing = [
    f"{name} {content(given[name])}"
    for name, value in _SUPPORTED.items()
    if content(given.get(name)) not in (value, None)
  ]
  kind = str(config.get("tokenizer_class") or _CLASSES[0])
  if not kind.removesuffix("Fast").endswith(_CLASSES):
    differing.append(f"tokenizer_class {kind}")
  added = [
    *(given.get("added_tokens_decoder") or {}).values(),
    *(given.get("additional_special_tokens") or ()),
    *added_ids,
    *(given.get("added_tokens") or ()),
  ]
  others = {str(content(token)) for token in added} - {*SPECIAL_TOKENS.values()}
  if others:
    names = messages.join_names(sorted(others), 3)
    differing.append(f"added tokens {names}")
  if differing:
    logging.warning(
      "%s: texts get other ids than in training, because parts of this "
      "tokenizer are not implemented: %s",
      folder or ".",
      ", ".join(differing),
    )
