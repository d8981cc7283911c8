"""Finds documents that are nearly the same as an earlier one.

Two documents are compared by their shingles, the runs of 5 words: similarity is
Jaccard's, the share of all shingles of either that both have. It is estimated
from MinHash sketches (Broder 1997), which banding finds without comparing all
pairs. Workers make the sketches; one process compares them, in the order of the
input, so that the result depends on the seed alone.
"""

import re
from collections.abc import Iterable

from bert_tf.files import errors

_SHINGLE_WORDS = 5
_NUM_HASHES = 128  # The estimate's standard error is 0.044 at most.

_NUM_SEEDS = 2**64

# The least chance that a pair of the similarity asked for is compared.
_MIN_RECALL = 0.99

# Thai and Lao, Burmese, Khmer, kana, Han: such text has no spaces, so a
# character counts as a word.
_NO_SPACES = (
  "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf"
  "\u4e00-\u9fff\uf900-\ufaff"
)
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W_{_NO_SPACES}]+")


def check_package() -> None:
  """Raises ImportError if the library of the sketches is missing."""
  with errors.needs_extra("finding near-duplicates", extra="corpus"):
    import rensa  # noqa: F401


def shingles(lines: Iterable[str]) -> set[str]:
  """Returns the runs of 5 words of a document; all of it if it is shorter."""
  words = _WORD.findall(" ".join(lines).lower())
  num_runs = max(1, len(words) - _SHINGLE_WORDS + 1)
  return {" ".join(words[i : i + _SHINGLE_WORDS]) for i in range(num_runs)}


def sketch(lines: Iterable[str], seed: int) -> str:
  """Returns the sketch of a document as hexadecimal digits.

  Args:
    lines: of the document.
    seed: of the hash functions; sketches of one seed can be compared.
  """
  import rensa

  made = rensa.RMinHash(_NUM_HASHES, seed % _NUM_SEEDS)
  made.update(shingles(lines))
  return made.__getstate__().hex()


class NearDuplicates:
  """Knows documents that are similar to an earlier one by their sketches.

  Takes about 1 kB a document.

  Args:
    similarity: Jaccard's, in (0, 1], from which on a document is a
      near-duplicate.
    seed: of the sketches.
  """

  def __init__(self, similarity: float, seed: int) -> None:
    import rensa

    self._seed = seed % _NUM_SEEDS
    self._num_documents = 0
    self._known = rensa.RMinHashDeduplicator(
      similarity,
      _NUM_HASHES,
      True,
      _NUM_HASHES // rows(similarity),
      self._seed,
    )

  def is_new(self, sketched: str) -> bool:
    """Returns whether no earlier document that was new is similar."""
    import rensa

    minhash = rensa.RMinHash(_NUM_HASHES, self._seed)
    minhash.__setstate__(bytes.fromhex(sketched))
    self._num_documents += 1
    return self._known.add(str(self._num_documents), minhash)


def rows(similarity: float) -> int:
  """Returns how many hashes a band has.

  Documents are compared if all hashes of a band agree. More hashes a band mean
  fewer comparisons; they are the most with which a pair of the similarity is
  compared with a chance of 99%.
  """
  found = 1
  for num_rows in (2, 4, 8, 16):
    num_bands = _NUM_HASHES // num_rows
    if 1 - (1 - similarity**num_rows) ** num_bands >= _MIN_RECALL:
      found = num_rows
  return found
