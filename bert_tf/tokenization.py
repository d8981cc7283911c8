"""Splits text into word pieces and ids, as the 2018 release does.

The steps are: clean the text, put spaces around CJK ideographs, split at white
space, lower-case and strip accents, split at punctuation, match the longest
word pieces from the left. The steps after the split at white space depend on
one word only, so `FullTokenizer` caches the ids of words.
"""

import codecs
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

from bert_tf.files import text_lines, tokenizer_files

# Special tokens in the order of the released vocabularies.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS

# Longer words become [UNK], as in the 2018 release.
MAX_INPUT_CHARS_PER_WORD = 200

# A full cache of English words takes 45 MB, any cache at most 140 MB.
_MAX_CACHED_WORDS = 1 << 18

# First and last ideographs, and a regular expression of them without brackets.
# Hangul, Hiragana and Katakana are not split into characters (2018 release,
# multilingual notes).
_CJK_RANGES = (
  *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
  *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF)),
  (0x2F800, 0x2FA1F),
)
CJK = "".join(f"{chr(first)}-{chr(last)}" for first, last in _CJK_RANGES)


def validate_case_matches_checkpoint(
  do_lower_case: bool, init_checkpoint: str | None
) -> None:
  """Raises ValueError if the case setting contradicts a released checkpoint.

  Accepts None and all other paths than `.../FOLDER/bert_model.ckpt`.
  """
  match = re.search(r"([A-Za-z0-9_-]+)/bert_model\.ckpt", init_checkpoint or "")
  folder = match.group(1) if match else ""
  is_released = re.fullmatch(
    r"(?:un)?cased_L-24_H-1024_A-16|"
    r"(?:uncased|cased|multi_cased|multilingual|chinese)_L-12_H-768_A-12",
    folder,
  )
  # Vocabularies are cased if the name says so, else lower-cased.
  trained_lower = not folder.startswith(("cased", "multi_cased"))
  if is_released and trained_lower != do_lower_case:
    case = "lower-cased" if trained_lower else "cased"
    raise ValueError(
      f"do_lower_case={do_lower_case} does not fit init_checkpoint "
      f"{init_checkpoint}, since {folder} was trained on {case} text; set "
      f"`do_lower_case={trained_lower}`."
    )


def convert_to_unicode(text: str | bytes) -> str:
  """Returns `text` as str. Decodes UTF-8 and ignores invalid bytes."""
  if isinstance(text, str):
    return text
  if isinstance(text, bytes):
    return text.decode("utf-8", "ignore")
  raise ValueError(f"text is a {type(text).__name__}; pass str or bytes.")


printable_text = convert_to_unicode  # The name for texts to print.


def load_vocab(vocab_file: str) -> dict[str, int]:
  """Reads a vocabulary; returns the id of each token, its line number from 0.

  Strips white space around tokens and drops carriage returns, as the 2018
  release does. Unlike the release, ignores blank lines at the end. The file is
  a vocab.txt, or a tokenizer.json of word pieces. Raises ValueError if it is
  empty, is not UTF-8, or has a token twice.
  """
  return parse_vocab(tokenizer_files.read_vocab(vocab_file), vocab_file)


def parse_vocab(content: bytes, vocab_file: str) -> dict[str, int]:
  """Returns the ids in the content of a vocab.txt; see `load_vocab`."""
  content = content.removeprefix(codecs.BOM_UTF8)
  lines = text_lines.decode(vocab_file, content).replace("\r", "").split("\n")
  tokens = [line.strip() for line in lines]
  while tokens and not tokens[-1]:
    tokens.pop()
  if not tokens:
    raise ValueError(f"{vocab_file}: the vocabulary is empty.")
  vocab: dict[str, int] = {}
  for index, token in enumerate(tokens):
    first = vocab.setdefault(token, index)
    if first != index:
      raise ValueError(
        f"{vocab_file}:{index + 1}: this repeats the token {token!r}, which is "
        f"on line {first + 1}."
      )
  return vocab


def convert_by_vocab(vocab: Mapping, items: Iterable) -> list:
  """Returns `vocab[item]` for each of `items`; ValueError for unknown ones."""
  try:
    return [vocab[item] for item in items]
  except KeyError as error:
    raise ValueError(
      f"{error.args[0]!r} is not in the vocabulary ({len(vocab)} entries)."
    ) from None


convert_tokens_to_ids = convert_by_vocab
convert_ids_to_tokens = convert_by_vocab  # With the ids' vocabulary.


def whitespace_tokenize(text: str) -> list[str]:
  """Splits `text` at runs of white space, like `str.split`."""
  return text.split()


_is_cjk = re.compile(f"[{CJK}]").match


def is_punctuation(char: str) -> bool:
  """Returns whether a character is punctuation or an ASCII symbol like "$"."""
  if char.isascii():
    return char.isprintable() and not char.isalnum() and char != " "
  return unicodedata.category(char).startswith("P")


# Private names that the test of the 2018 release uses.
_is_punctuation = is_punctuation


def _is_whitespace(char: str) -> bool:
  return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
  return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_separate_token(char: str) -> bool:
  """Returns whether `BasicTokenizer` splits words at this character."""
  return bool(_is_cjk(char)) or is_punctuation(char)


def clean_char(char: str) -> str:
  """Cleans a character: drops it, puts spaces around it, or returns it.

  Other white space than tab, newline and return is left to `str.split`.
  """
  if char in "\t\n\r":
    return " "
  if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf"):
    return ""
  return f" {char} " if _is_cjk(char) else char


class _Translation(dict):
  """A table for `str.translate`, filled when a character first occurs."""

  def __init__(self, convert: Callable[[str], str]) -> None:
    super().__init__()
    self._convert = convert

  def __missing__(self, code: int) -> str:
    self[code] = converted = self._convert(chr(code))
    return converted


_CLEANING = _Translation(clean_char)
_PUNCTUATION = _Translation(lambda c: f" {c} " if is_punctuation(c) else c)

# Printable characters that `clean_char` changes.
_CLEANED_PRINTABLE = re.compile(f"[\ufffd{CJK}]")


def clean_and_split(text: str) -> list[str]:
  """Cleans `text`, puts spaces around ideographs and splits at white space.

  Cleaning comes first. `str.split` treats U+001C to U+001F as white space, but
  the 2018 release drops them as control characters, which joins the words.
  """
  # Most text needs no cleaning. These two scans are faster than cleaning.
  if not text.isprintable() or (
    not text.isascii() and _CLEANED_PRINTABLE.search(text)
  ):
    text = text.translate(_CLEANING)
  return text.split()


def without_accents(text: str) -> str:
  """Decomposes `text` (NFD) and drops non-spacing marks, in linear time."""
  if len(text) <= 256:
    chars = unicodedata.normalize("NFD", text)
  else:
    # For long texts `normalize` is slower: it sorts runs of combining marks by
    # insertion, which takes 170 s for 256,000 marks. Unicode Standard, section
    # 3.11: decompose each character, then sort each run of marks by combining
    # class. The sort is stable, and the class of all other characters is 0, so
    # they keep their order.
    decomposed = "".join(unicodedata.normalize("NFD", char) for char in text)
    runs = itertools.groupby(decomposed, lambda c: unicodedata.combining(c) > 0)
    parts = (sorted(run, key=unicodedata.combining) for _, run in runs)
    chars = "".join(itertools.chain.from_iterable(parts))
  return "".join(c for c in chars if unicodedata.category(c) != "Mn")


class BasicTokenizer:
  """Cleans, lower-cases and splits text at white space and punctuation."""

  def __init__(
    self, do_lower_case: bool = True, strip_accents: bool | None = None
  ) -> None:
    """Makes a tokenizer; strip_accents=None strips only if do_lower_case."""
    strips = do_lower_case if strip_accents is None else strip_accents
    self.do_lower_case, self.strip_accents = do_lower_case, strips

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the words and punctuation marks of `text`."""
    words = clean_and_split(convert_to_unicode(text))
    return list(itertools.chain.from_iterable(map(self.split_word, words)))

  def split_word(self, word: str) -> list[str]:
    """Returns the tokens of a cleaned word without white space."""
    if self.do_lower_case:
      word = word.lower()
    if self.strip_accents and not word.isascii():
      word = without_accents(word)
    if word.isalnum():
      return [word]
    return word.translate(_PUNCTUATION).split()


class WordpieceTokenizer:
  """Splits words into the longest pieces of a vocabulary, left to right."""

  def __init__(
    self,
    vocab: Mapping[str, int],
    unk_token: str = UNK,
    max_input_chars_per_word: int = MAX_INPUT_CHARS_PER_WORD,
  ) -> None:
    """Makes a tokenizer.

    Args:
      vocab: token to id. Pieces inside a word start with "##".
      unk_token: replaces words that cannot be split into pieces.
      max_input_chars_per_word: longer words become `unk_token`.
    """
    self.vocab = vocab
    self.unk_token = unk_token
    self.max_input_chars_per_word = max_input_chars_per_word
    self._max_piece_chars = max(map(len, vocab), default=0)

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the pieces of `text`, the joined output of `BasicTokenizer`."""
    words = whitespace_tokenize(convert_to_unicode(text))
    return list(itertools.chain.from_iterable(map(self.split_word, words)))

  def split_word(self, word: str) -> list[str]:
    """Returns the pieces of a word, or [unk_token]."""
    if len(word) > self.max_input_chars_per_word:
      return [self.unk_token]
    if word in self.vocab:
      return [word]
    pieces = []
    start = 0
    while start < len(word):
      prefix = "##" if start else ""
      longest = min(len(word), start + self._max_piece_chars)
      for end in range(longest, start, -1):
        piece = prefix + word[start:end]
        if piece in self.vocab:
          break
      else:
        return [self.unk_token]
      pieces.append(piece)
      start = end
    return pieces


class _WordIds(dict):
  """A bounded cache from a cleaned word to its ids."""

  def __init__(self, tokenizer: "FullTokenizer") -> None:
    super().__init__()
    self._tokenizer = tokenizer

  def __missing__(self, word: str) -> tuple[int, ...]:
    tokenizer = self._tokenizer
    ids = tuple(
      tokenizer.vocab[piece]
      for token in tokenizer.basic_tokenizer.split_word(word)
      for piece in tokenizer.wordpiece_tokenizer.split_word(token)
    )
    if len(word) <= 32:  # Longer words rarely repeat.
      # Frequent words soon enter the cache again.
      if len(self) >= _MAX_CACHED_WORDS:
        self.clear()
      self[word] = ids
    return ids


class FullTokenizer:
  """Splits text into word pieces or ids of a vocabulary file.

  `vocab` maps tokens to ids, in file order; `inv_vocab` maps ids to tokens.

  Args:
    vocab_file: a vocab.txt, or a tokenizer.json of word pieces.
    do_lower_case: whether to lower-case texts, as the vocabulary needs it.
    strip_accents: whether to strip accents; None for the same as do_lower_case.
    vocab: the content of vocab_file, if it has been read before.

  Raises:
    ValueError: if the vocabulary is damaged or lacks [UNK].

  Examples:
    >>> tokenizer = bert_tf.FullTokenizer("vocab.txt")
    >>> tokens = tokenizer.tokenize("The hotels of Oregon!")
    >>> tokens
    ['the', 'hotel', '##s', 'of', 'oregon', '!']
    >>> tokenizer.convert_tokens_to_ids(["[CLS]", "!", "[SEP]"])
    [2, 5, 3]
    >>> tokenizer.convert_ids_to_tokens([2, 5, 3])
    ['[CLS]', '!', '[SEP]']
  """

  def __init__(
    self,
    vocab_file: str,
    do_lower_case: bool = True,
    strip_accents: bool | None = None,
    vocab: dict[str, int] | None = None,
  ) -> None:
    self.vocab = load_vocab(vocab_file) if vocab is None else vocab
    self.inv_vocab = {index: token for token, index in self.vocab.items()}
    if UNK not in self.vocab:
      size = len(self.vocab)
      raise ValueError(f"{vocab_file} has {size} tokens, but lacks [UNK].")
    self.basic_tokenizer = BasicTokenizer(do_lower_case, strip_accents)
    self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
    self._word_ids = _WordIds(self)

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the word pieces of `text`."""
    return list(map(self.inv_vocab.__getitem__, self.tokenize_to_ids(text)))

  def tokenize_to_ids(self, text: str | bytes) -> list[int]:
    """Returns the ids of `tokenize(text)`, without making the pieces."""
    words = clean_and_split(convert_to_unicode(text))
    ids = map(self._word_ids.__getitem__, words)
    return list(itertools.chain.from_iterable(ids))

  def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int]:
    """Returns the ids of `tokens`; raises ValueError for unknown tokens."""
    return convert_by_vocab(self.vocab, tokens)

  def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
    """Returns the tokens of `ids`; raises ValueError for unknown ids."""
    return convert_by_vocab(self.inv_vocab, ids)
