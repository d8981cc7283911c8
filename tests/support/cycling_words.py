"""A text whose next word is always certain, which models learn quickly."""

from tests.support import checkout

VOCAB_FILE = str(checkout.ROOT / "tests" / "golden" / "tiny" / "vocab.txt")
WORDS = "the of and in to was he is as for on with that it his by".split()


def text():
  """Returns documents that repeat WORDS in order."""
  cycle = WORDS * 3
  lines = [" ".join(cycle[i : i + 6]) for i in range(len(WORDS))] * 3
  return "\n\n".join("\n".join(lines[i : i + 6]) for i in range(0, 48, 6))
