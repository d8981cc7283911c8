"""Files of a tokenizer: vocab.txt and the files that Hugging Face writes.

`tokenizer_config.json` and `tokenizer.json` can ask for a tokenizer that this
package does not implement. The ids of a text would then differ from those in
training, so `read_settings` lists every such setting.
"""

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping
from typing import Any

from absl import logging

from bert_tf.files import errors, json_files, paths

VOCAB_FILE = "vocab.txt"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"

# Settings that name special tokens, with BERT's tokens.
SPECIAL_TOKENS = {
  f"{name}_token": f"[{name.upper()}]"
  for name in ("pad", "unk", "cls", "sep", "mask")
}

# Settings of which only this value is supported.
FIXED_SETTINGS = {"tokenize_chinese_chars": True}
_OTHER_FIXED_SETTINGS = {
  "do_basic_tokenize": True,
  "word_tokenizer_type": "basic",
  "subword_tokenizer_type": "wordpiece",
  "clean_text": True,
}
_PARTS: Mapping[str, Mapping[str, Any]] = {
  "model": {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": "##",
  },
  "normalizer": {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
  },
  "pre_tokenizer": {"type": "BertPreTokenizer"},
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


def _part() -> Any:
  return dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Tokenizer:
  """The parts of tokenizer.json. {}, the default, is BERT's; None is none."""

  model: dict[str, Any] | None = _part()
  normalizer: dict[str, Any] | None = _part()
  pre_tokenizer: dict[str, Any] | None = _part()
  added_tokens: list[Any] | None = None

  @property
  def word_pieces(self) -> dict[str, Any]:
    """The ids by token; {} unless the model is a WordPiece."""
    model = self.model or {}
    # Early versions of the format do not name the type.
    is_word_piece = model.get("type", "WordPiece") == "WordPiece"
    vocab = model.get("vocab")
    if not is_word_piece or "merges" in model or not isinstance(vocab, dict):
      return {}
    return vocab


def find_vocab(folder: str) -> str | None:
  """Returns the path of vocab.txt, of a WordPiece tokenizer.json or None."""
  path = os.path.join(folder, VOCAB_FILE)
  if paths.exists(path):
    return path
  path = os.path.join(folder, TOKENIZER)
  has_vocab = (
    paths.exists(path) and json_files.read(path, _Tokenizer).word_pieces
  )
  return path if has_vocab else None


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
  vocab = json_files.read(vocab_file, _Tokenizer).word_pieces
  if not vocab:
    raise ValueError(
      f"{vocab_file} has no vocabulary of word pieces; give a vocab.txt."
    )
  tokens = {i: token for token, i in vocab.items()}
  missing = [i for i in range(len(vocab)) if i not in tokens]
  if missing:
    raise ValueError(f"{vocab_file}: no token has the id {missing[0]}.")
  lines = [tokens[i] for i in range(len(vocab))]
  broken = [line for line in lines if "\n" in line]
  if broken:
    raise ValueError(f"{vocab_file}: the token {broken[0]!r} has a line break.")
  return "".join(f"{line}\n" for line in lines).encode(errors="replace")


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
  config = _read(folder, TOKENIZER_CONFIG)
  tokenizer = _read(folder, TOKENIZER, _Tokenizer) or _Tokenizer()
  normalizer = tokenizer.normalizer or {}
  lower, accents = normalizer.get("lowercase"), normalizer.get("strip_accents")
  if config is not None:
    lower = config.get("do_lower_case", True if lower is None else lower)
    accents = config.get("strip_accents", accents)
  where = f"the tokenizer in {folder}"
  return TokenizerSettings(
    json_files.check(lower, bool | None, f"do_lower_case of {where}"),
    json_files.check(accents, bool | None, f"strip_accents of {where}"),
    tuple(_find_differing(folder, config or {}, tokenizer)),
  )


def _read(folder: str, name: str, kind: Any = dict[str, Any]) -> Any:
  path = os.path.join(folder, name)
  return json_files.read(path, kind) if paths.exists(path) else None


def _find_differing(
  folder: str, config: Mapping[str, Any], tokenizer: _Tokenizer
) -> Iterator[str]:
  """Yields the settings that are not implemented, file by file."""
  in_config = [
    *_differing(config, {**FIXED_SETTINGS, **_OTHER_FIXED_SETTINGS}),
    *_differing(config, SPECIAL_TOKENS),
  ]
  name = config.get("tokenizer_class")
  if name and str(name).removesuffix("Fast") not in _CLASSES:
    in_config.append(f"tokenizer_class {name}")
  for name in (
    *("never_split", "additional_special_tokens", "extra_special_tokens"),
    "added_tokens_decoder",
  ):
    in_config += _others(name, config.get(name))
  in_tokenizer = [*_others("added_tokens", tokenizer.added_tokens)]
  for name, expected in _PARTS.items():
    part = getattr(tokenizer, name)
    if part is None:
      in_tokenizer.append(f"{name} None")
    else:
      in_tokenizer += _differing(part, expected)
  path = os.path.join(folder, VOCAB_FILE)
  if tokenizer.word_pieces and paths.exists(path):
    other_path = os.path.join(folder, TOKENIZER)
    if paths.read_bytes(path).split() != read_vocab(other_path).split():
      in_tokenizer.append(f"other tokens than {VOCAB_FILE}, which is used")
  for file, found in ((TOKENIZER_CONFIG, in_config), (TOKENIZER, in_tokenizer)):
    if found:
      yield f"{', '.join(found)} ({file})"


def _differing(
  values: Mapping[str, Any], expected: Mapping[str, Any]
) -> Iterator[str]:
  for name, value in expected.items():
    given = _content(values.get(name))
    if given not in (value, None):
      yield f"{name} {given}"


def _others(name: str, tokens: Any) -> Iterator[str]:
  tokens = tokens.values() if isinstance(tokens, dict) else tokens
  if isinstance(tokens, str | bool):
    tokens = [tokens] if tokens else []
  contents = dict.fromkeys(str(_content(token)) for token in tokens or ())
  others = [c for c in contents if c not in SPECIAL_TOKENS.values()]
  if others:
    yield f"{name} {errors.join_names(others, 3)}"


def _content(token: Any) -> Any:
  """Returns a token. Some files store tokens as objects."""
  return token.get("content") if isinstance(token, dict) else token
