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
_WORDS = "[UNK] [CLS] [SEP] [MASK] [PAD] ##ing [unused1]".split()
# A long word is 99 to 402 of these; WordPiece's limit is 200.
_REPEATED = ["a", "ab", "é", "e\u0301", "한", "ΑΣ", "😀", "x.", "İ"]
# Blocks of Chinese characters.
_CJK = (
  range(0x3400, 0x4DC0),
  range(0x4E00, 0xA000),
  range(0xF900, 0xFB00),
  range(0x20000, 0x2CEB0),
  range(0x2F800, 0x2FA20),
)


@functools.cache
def _of_categories(*categories):
  # UTF-8 has no surrogates.
  chars = (chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
  return [c for c in chars if unicodedata.category(c) in categories]


@functools.cache
def _white_space():
  spaces = [c for c in map(chr, range(0x110000)) if c.isspace()]
  return spaces + [*"\u200b\u2060\ufeff\u180e\ufffd\x00"]


def marks_that_stay():
  """Returns spacing marks that NFD changes and accent stripping keeps."""
  return [
    c
    for c in _of_categories("Mc")
    if unicodedata.combining(c) or unicodedata.decomposition(c)
  ]


def _any_char(rng):
  code = rng.randrange(17) << 16 | rng.randrange(0x10000)
  return chr(code if not 0xD800 <= code < 0xE000 else code - 0x800)


@functools.cache
def _alphabets():
  """Returns pairs of a weight and characters of one kind."""
  return (
    (8, [chr(c) for c in range(0x3000)]),
    (16, [chr(c) for c in range(128)]),
    (6, _white_space()),
    (4, _of_categories("Cc", "Cf")),
    (6, _of_categories("Mn", "Mc", "Me")),
    (3, [*marks_that_stay(), "\u0301", "\u0323"]),
    (4, [chr(c) for block in _CJK for c in block]),
    (3, [chr(c) + "\u11a8" for c in range(0xAC00, 0xD7A4)]),
    (3, _of_categories("Lu", "Lt")),
    (3, _of_categories("Pc", "Pd", "Ps", "Po", "Sk")),
    (2, _of_categories("Co")[::997]),
    (6, _SIGMAS),
    (6, _ODDITIES),
    (3, _WORDS),
  )


def make(count, seed):
  """Yields texts of up to eight parts of different kinds."""
  rng = random.Random(seed)
  weights, alphabets = zip(*_alphabets())
  for _ in range(count):
    parts = [
      "".join(rng.choices(alphabet, k=rng.randint(1, 6)))
      for alphabet in rng.choices(alphabets, weights, k=rng.randint(0, 7))
    ]
    parts.append("".join(_any_char(rng) for _ in range(rng.randint(0, 3))))
    if rng.random() < 0.05:
      parts.append(rng.choice(_REPEATED) * rng.choice([99, 199, 200, 201]))
    rng.shuffle(parts)
    yield "".join(parts)
