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
# Characters of some Chinese blocks.
_CJK = "\u3400\u4dbf\u4e00\u9fff\uf900\ufaff\U00020000\U0002ceaf\U0002f800"


@functools.cache
def _alphabets():
  """Returns pairs of a weight and characters of one kind."""
  # UTF-8 has no surrogates.
  chars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]

  def of(*categories):
    return [c for c in chars if unicodedata.category(c) in categories]

  spaces = [c for c in chars if c.isspace()]
  # Spacing marks that NFD changes and accent stripping keeps.
  stay = [
    c
    for c in of("Mc")
    if unicodedata.combining(c) or unicodedata.decomposition(c)
  ]
  return (
    (8, chars[:0x3000]),
    (16, chars[:128]),
    (4, chars),
    (6, [*spaces, *"\u200b\u2060\ufeff\u180e\ufffd\x00"]),
    (4, of("Cc", "Cf")),
    (6, of("Mn", "Mc", "Me")),
    (3, [*stay, "\u0301", "\u0323"]),
    (4, _CJK),
    (3, [chr(c) + "\u11a8" for c in range(0xAC00, 0xD7A4)]),
    (3, of("Lu", "Lt")),
    (3, of("Pc", "Pd", "Ps", "Po", "Sk")),
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
      for alphabet in rng.choices(alphabets, weights, k=rng.randint(0, 8))
    ]
    if rng.random() < 0.05:
      parts.append(rng.choice(_REPEATED) * rng.choice([99, 199, 200, 201]))
    rng.shuffle(parts)
    yield "".join(parts)
