"""Finds documents that are nearly the same as an earlier one.

The similarity of two documents is the Jaccard index of their shingles, the runs
of 5 words: the shingles in both, as a share of the shingles in either. MinHash
sketches estimate it (Broder 1997), and banding finds similar pairs without
comparing all pairs.

Workers make the sketches. One process compares them in the order of the input,
so the result depends only on the input and the seed.
"""

import re
from collections.abc import Iterable

from bert_tf.files import errors

_SHINGLE_WORDS = 5
_NUM_HASHES = 128  # The estimate's standard error is 0.044 at most.

_NUM_SEEDS = 2**64

# A pair of exactly the given similarity is compared with at least this
# probability.
_MIN_RECALL = 0.99

# Thai and Lao, Burmese, Khmer, kana, Han. These scripts have no spaces, so each
# character counts as a word.
_NO_SPACES = (
  "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf"
  "\u4e00-\u9fff\uf900-\ufaff"
)
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W_{_NO_SPACES}]+")


def check_package() -> None:
  """Raises ImportError if rensa, which makes the sketches, is missing."""
  with errors.needs_extra("finding near-duplicates", extra="corpus"):
    import rensa  # noqa: F401


def shingles(lines: Iterable[str]) -> set[str]:
  """Returns the runs of 5 words of a document; all words if it has fewer."""
  words = _WORD.findall(" ".join(lines).lower())
  num_runs = max(1, len(words) - _SHINGLE_WORDS + 1)
  return {" ".join(words[i : i + _SHINGLE_WORDS]) for i in range(num_runs)}


def sketch(lines: Iterable[str], seed: int) -> str:
  """Returns the MinHash sketch of a document as hexadecimal digits.

  Args:
    lines: lines of the document.
    seed: seed of the hash functions. Only sketches with the same seed are
      comparable.
  """
  import rensa

  made = rensa.RMinHash(_NUM_HASHES, seed % _NUM_SEEDS)
  made.update(shingles(lines))
  return made.__getstate__().hex()


class NearDuplicates:
  """Detects documents that are similar to an earlier one, by their sketches.

  Takes about 1 kB of memory per document.

  Args:
    similarity: lowest Jaccard index of near-duplicates, (0, 1].
    seed: seed of the sketches.
  """

  def __init__(self, similarity: float, seed: int) -> None:
    import rensa

    self._seed = seed % _NUM_SEEDS
    self._num_documents = 0
    self._known = rensa.RMinHashDeduplicator(
      similarity,
      _NUM_HASHES,
      True,
      _NUM_HASHES // band_size(similarity),
      self._seed,
    )

  def is_new(self, sketched: str) -> bool:
    """Returns False if a document is similar to an earlier new one.

    Otherwise remembers its sketch, `sketched`.
    """
    import rensa

    minhash = rensa.RMinHash(_NUM_HASHES, self._seed)
    minhash.__setstate__(bytes.fromhex(sketched))
    self._num_documents += 1
    return self._known.add(str(self._num_documents), minhash)


def band_size(similarity: float) -> int:
  """Returns the number of hashes per band.

  Documents are compared if all hashes of some band agree. More hashes per band
  mean fewer comparisons. This is the largest number with which a pair of the
  given similarity is compared with a probability of at least 99%.
  """
  largest = 1
  for size in (2, 4, 8, 16):
    num_bands = _NUM_HASHES // size
    if 1 - (1 - similarity**size) ** num_bands >= _MIN_RECALL:
      largest = size
  return largest
