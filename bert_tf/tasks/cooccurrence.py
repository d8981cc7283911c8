"""Word embeddings from which words stand near each other in a text.

As Levy and Goldberg (2014) have it: pieces that occur near each other more
often than by chance have a positive pointwise mutual information, and the
largest eigenvectors of the matrix of them are embeddings. Words with the same
neighbours are near each other, and the output, which has the same matrix,
knows which words go with which.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

# How far apart two pieces are that stand near each other.
_WINDOW = 3

# Of a context's frequency, so that rare ones do not count for too much.
_SMOOTHING = 0.75

# A piece that is read less often keeps its random values.
_LEAST_COUNT = 5

# Of the eigenvectors, found in a space of more dimensions by powers.
_NUM_MORE = 40
_NUM_POWERS = 4


def embeddings(
  texts: Sequence[np.ndarray], values: np.ndarray, seed: int
) -> np.ndarray:
  """Returns embeddings of the pieces that were read often, others as they are.

  Args:
    texts: int [N, T] each, rows of text, -1 where there is no piece.
    values: float [V, D], random embeddings, which give the scale.
    seed: of what is drawn.

  Returns:
    float [V, D]; an embedding that was found has the length that random ones
    have in the mean.
  """
  counts = _counts(texts, len(values))
  found = _eigenvectors(_information(counts), values.shape[1], seed)
  lengths = np.linalg.norm(found, axis=1)
  is_known = (_row_sums(counts) >= 2 * _WINDOW * _LEAST_COUNT) & (lengths > 0)
  usual = np.sqrt(np.mean(np.sum(np.square(values), axis=1)))
  scale = usual / np.where(is_known, lengths, 1.0)
  return np.where(is_known[:, None], scale[:, None] * found, values)


def _counts(texts: Sequence[np.ndarray], vocab_size: int) -> sparse.csr_matrix:
  """Returns how often two pieces are near each other, [V, V], symmetric."""
  counts = sparse.csr_matrix((vocab_size, vocab_size))
  for distance in range(1, _WINDOW + 1):
    one = np.concatenate([rows[:, :-distance].ravel() for rows in texts])
    other = np.concatenate([rows[:, distance:].ravel() for rows in texts])
    both = (one >= 0) & (other >= 0)
    pairs = one[both], other[both]
    counts += sparse.coo_matrix((np.ones(both.sum()), pairs), counts.shape)
  return counts + counts.T


def _row_sums(counts: sparse.csr_matrix) -> np.ndarray:
  return np.asarray(counts.sum(axis=1)).ravel()


def _information(counts: sparse.csr_matrix) -> sparse.csr_matrix:
  """Returns the positive mutual information of pieces, [V, V], symmetric."""
  sums = _row_sums(counts)
  shares = sums**_SMOOTHING
  shares /= max(shares.sum(), 1.0)
  found = counts.tocoo()
  chance = sums[found.row] * shares[found.col]
  information = np.maximum(np.log(found.data / chance), 0.0)
  matrix = sparse.coo_matrix((information, (found.row, found.col)), found.shape)
  return (matrix + matrix.T).tocsr() / 2.0


def _eigenvectors(
  matrix: sparse.csr_matrix, width: int, seed: int
) -> np.ndarray:
  """Returns the largest eigenvectors, by the roots of their values, [V, width].

  They are turned at random, so that no column has more of them than others.
  """
  rng = np.random.default_rng(seed)
  size = matrix.shape[0]
  space = rng.normal(size=(size, min(size, width + _NUM_MORE)))
  for _ in range(1 + _NUM_POWERS):  # Halko et al. 2011.
    space = np.linalg.qr(matrix @ space)[0]
  values, vectors = np.linalg.eigh(space.T @ (matrix @ space))
  largest = np.argsort(-np.abs(values))[:width]
  found = space @ vectors[:, largest] * np.sqrt(np.abs(values[largest]))
  turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
  return found @ turn[: len(largest)]
