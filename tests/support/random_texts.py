"""Random Unicode texts with rare cases of the tokenizer."""

import functools
import random
import unicodedata

# Characters that decide whether a sigma is final. Letters around it count;
# ignorable characters between them do not.
_SIGMAS = "ΣΣΣσςΑα.'·:\u00ad\u0301\u0345\u200d ᾼA1-"
# Characters with special rules for case or decomposition.
_ODDITIES = (
  "İıßẞſǅǈǋǲKÅΩﬀŉǰΐᾳᾳ̈ᾼῼ\u0130\u0307i\u0307\u037e\u1fef\u0344\u0958\u0f73"
)
_ASCII = "".join(map(chr, range(128)))
_SPECIAL_TOKENS = (
  "[UNK]",
  "[CLS]",
  "[SEP]",
  "[MASK]",
  "[PAD]",
  "##ing",
  "[unused1]",
)
_CJK = (
  (0x3400, 0x4DC0),
  (0x4E00, 0xA000),
  (0xF900, 0xFB00),
  (0x20000, 0x2CEB0),
  (0x2F800, 0x2FA20),
)


@functools.cache
def _list_categories(*categories):
  chars = map(chr, range(0x110000))
  return [c for c in chars if unicodedata.category(c) in categories]


@functools.cache
def _white_space():
  return [c for c in map(chr, range(0x110000)) if c.isspace()] + [
    *"\u200b\u2060\ufeff\u180e\ufffd\x00"
  ]


@functools.cache
def marks_that_stay():
  """Returns spacing marks that NFD changes and accent stripping keeps."""
  return [
    c
    for c in _list_categories("Mc")
    if unicodedata.combining(c) or unicodedata.decomposition(c)
  ]


def _any_char(rng):
  # All planes are equally likely. UTF-8 has no surrogates.
  code = rng.randrange(17) << 16 | rng.randrange(0x10000)
  return chr(code if not 0xD800 <= code < 0xE000 else code - 0x800)


def _few(chars, rng, most=6):
  return "".join(rng.choices(chars, k=rng.randint(1, most)))


def _long_word(rng):
  """Returns a word of 99 to 402 characters; WordPiece's limit is 200."""
  alphabet = rng.choice(
    ["a", "ab", "é", "e\u0301", "한", "ΑΣ", "😀", "x.", "İ"]
  )
  return "".join(rng.choices(alphabet, k=rng.choice([99, 199, 200, 201, 402])))


# Relative frequency of each kind of text, and a function that makes one.
_KINDS = (
  (8, lambda rng: _few([_any_char(rng) for _ in range(4)], rng)),
  (8, lambda rng: _few([chr(rng.randrange(0x3000)) for _ in range(6)], rng)),
  (8, lambda rng: _few(_ASCII, rng, 10)),
  (8, lambda rng: _few("abcdefghijklmnopqrstuvwxyzABCXYZ", rng, 10)),
  (6, lambda rng: _few(_white_space(), rng, 2)),
  (4, lambda rng: _few(_list_categories("Cc", "Cf"), rng, 3)),
  (6, lambda rng: _few(_list_categories("Mn", "Mc", "Me"), rng, 4)),
  (3, lambda rng: _few(marks_that_stay() + ["\u0301", "\u0323"], rng, 5)),
  (4, lambda rng: _few([chr(rng.randrange(*rng.choice(_CJK)))], rng, 1)),
  (3, lambda rng: chr(rng.randrange(0xAC00, 0xD7A4)) + "\u11a8"),
  (3, lambda rng: _few(_list_categories("Lu", "Lt"), rng)),
  (3, lambda rng: _few(_list_categories("Pc", "Pd", "Ps", "Po", "Sk"), rng, 2)),
  (2, lambda rng: _few(_list_categories("Co")[::997], rng, 2)),
  (6, lambda rng: _few(_SIGMAS, rng, 8)),
  (6, lambda rng: _few(_ODDITIES, rng, 4)),
  (3, lambda rng: rng.choice(_SPECIAL_TOKENS)),
  (1, _long_word),
)
_WEIGHTS, _MAKERS = zip(*_KINDS)


def make(count, seed):
  """Yields texts of up to eight parts of different kinds."""
  rng = random.Random(seed)
  for _ in range(count):
    makers = rng.choices(_MAKERS, _WEIGHTS, k=rng.randint(0, 8))
    yield "".join(maker(rng) for maker in makers)
