"""Word embeddings from the co-occurrence of word pieces in a text.

The method is that of Levy and Goldberg (2014). Pieces that co-occur more often
than by chance have positive pointwise mutual information (PMI). The leading
eigenvectors of the PMI matrix are the embeddings. Words with the same
neighbours get similar embeddings. The output layer shares the embedding table,
so it predicts words that co-occur with the input, and the layers between both
start close to the identity.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from scipy import sparse

from bert_tf.model import heads
from bert_tf.tasks.pretraining import pretraining_start

NAME = "cooccurrence"  # The value of `initial_values`.

_NUM_COUNTED_BATCHES = 2_000

# Multiple of the identity in the masked-LM head's dense layer. It is small, so
# that gelu is nearly linear; the layer norm after gelu restores the scale.
_HEAD_SCALE = 0.1

# Factor for the initial kernels of the feed-forward layers' output projections,
# which are untrained and should add little.
_FEED_FORWARD_SCALE = 0.1

# Maximum distance of two pieces that co-occur, in positions.
_WINDOW = 3

# Exponent of a context's frequency. Values below 1 reduce the weight of rare
# contexts.
_SMOOTHING = 0.75

# A piece with fewer occurrences keeps its random values. Each occurrence has up
# to 2 * _WINDOW neighbours.
_LEAST_COUNT = 5

# Oversampling and power iterations of the randomized eigensolver.
_NUM_MORE = 40
_NUM_POWERS = 4


def set_values(
  model: heads.PretrainingModel,
  batches: Iterable[Mapping[str, tf.Tensor]],
  seed: int,
) -> None:
  """Sets the values of pretraining_start.set_values and the word embeddings.

  Also sets the layers between embeddings and output.
  """
  variables = {variable.path: variable for variable in model.variables}
  texts, labels = _read(itertools.islice(batches, _NUM_COUNTED_BATCHES))
  values = pretraining_start.neighbour_values(model.config, seed)
  words = variables["bert/embeddings/word_embeddings"]
  values[words.path] = embeddings(texts, words.numpy(), seed)
  dense = "cls/predictions/transform/dense/kernel"
  values[dense] = _HEAD_SCALE * np.eye(model.config.hidden_size)
  for name, variable in variables.items():
    if re.fullmatch(r"bert/encoder/layer_\d+/output/dense/kernel", name):
      values[name] = _FEED_FORWARD_SCALE * variable.numpy()
  values |= pretraining_start.bias_values(labels, model.config.vocab_size)
  pretraining_start.assign(model, values)


def _read(
  batches: Iterable[Mapping[str, tf.Tensor]],
) -> tuple[list[np.ndarray], np.ndarray]:
  """Returns the original text of batches, and its masked pieces.

  Returns:
    For each batch the text, int [B, T], -1 for padding. The M masked pieces of
    all batches, int [M].
  """
  texts, labels = [], []
  for batch in batches:
    values = {name: tensor.numpy() for name, tensor in batch.items()}
    pieces = np.where(values["input_mask"] > 0, values["input_ids"], -1)
    row, number = np.nonzero(values["masked_lm_weights"])
    masked = values["masked_lm_ids"][row, number]
    pieces[row, values["masked_lm_positions"][row, number]] = masked
    texts.append(pieces)
    labels.append(masked)
  return texts, np.concatenate(labels)


def embeddings(
  texts: Sequence[np.ndarray], values: np.ndarray, seed: int
) -> np.ndarray:
  """Returns embeddings; rare pieces keep their random values.

  Args:
    texts: int [B, T] each. Rows of T word-piece ids; -1 for padding.
    values: float [V, D]. Random embeddings of the V pieces of the vocabulary,
      which determine the scale.
    seed: seed of the random eigensolver.

  Returns:
    float [V, D]. The norm of each new embedding is the root mean square of the
    norms in `values`.
  """
  counts = _counts(texts, len(values))
  vectors = _eigenvectors(_information(counts), values.shape[1], seed)
  lengths = np.linalg.norm(vectors, axis=1)
  is_known = (_row_sums(counts) >= 2 * _WINDOW * _LEAST_COUNT) & (lengths > 0)
  usual = np.sqrt(np.mean(np.sum(np.square(values), axis=1)))
  scale = usual / np.where(is_known, lengths, 1.0)
  return np.where(is_known[:, None], scale[:, None] * vectors, values)


def _counts(texts: Sequence[np.ndarray], vocab_size: int) -> sparse.csr_matrix:
  """Returns how often any two pieces co-occur, [V, V], symmetric."""
  counts = sparse.csr_matrix((vocab_size, vocab_size))
  for distance in range(1, _WINDOW + 1):
    left = np.concatenate([rows[:, :-distance].ravel() for rows in texts])
    right = np.concatenate([rows[:, distance:].ravel() for rows in texts])
    is_pair = (left >= 0) & (right >= 0)
    pairs = left[is_pair], right[is_pair]
    counts += sparse.coo_matrix((np.ones(is_pair.sum()), pairs), counts.shape)
  return counts + counts.T


def _row_sums(counts: sparse.csr_matrix) -> np.ndarray:
  return np.asarray(counts.sum(axis=1)).ravel()


def _information(counts: sparse.csr_matrix) -> sparse.csr_matrix:
  """Returns the positive PMI of any two pieces, [V, V], symmetric."""
  sums = _row_sums(counts)
  shares = sums**_SMOOTHING
  shares /= max(shares.sum(), 1.0)
  pairs = counts.tocoo()
  chance = sums[pairs.row] * shares[pairs.col]
  information = np.maximum(np.log(pairs.data / chance), 0.0)
  matrix = sparse.coo_matrix((information, (pairs.row, pairs.col)), pairs.shape)
  return (matrix + matrix.T).tocsr() / 2.0


def _eigenvectors(
  matrix: sparse.csr_matrix, width: int, seed: int
) -> np.ndarray:
  """Returns the leading eigenvectors times sqrt(|eigenvalue|), [V, width].

  A random rotation spreads the variance evenly over the columns.
  """
  rng = np.random.default_rng(seed)
  size = matrix.shape[0]
  space = rng.normal(size=(size, min(size, width + _NUM_MORE)))
  for _ in range(1 + _NUM_POWERS):  # Halko et al. 2011.
    space = np.linalg.qr(matrix @ space)[0]
  values, vectors = np.linalg.eigh(space.T @ (matrix @ space))
  largest = np.argsort(-np.abs(values))[:width]
  scaled = space @ vectors[:, largest] * np.sqrt(np.abs(values[largest]))
  rotation = np.linalg.qr(rng.normal(size=(width, width)))[0]
  return scaled @ rotation[: len(largest)]
