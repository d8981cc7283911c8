"""Word embeddings from which words stand near each other."""

import numpy as np
import pytest

from bert_tf.tasks import cooccurrence

NUM_KINDS, OF_KIND, D = 12, 5, 16
V = NUM_KINDS * OF_KIND + 1  # The last piece does not occur.


def texts(num_rows=600, length=12):
  """Kinds of pieces follow each other in a circle, pieces of one at random."""
  rng = np.random.default_rng(0)
  kinds = rng.integers(NUM_KINDS, size=(num_rows, 1)) + np.arange(length)
  pieces = OF_KIND * (kinds % NUM_KINDS) + rng.integers(
    OF_KIND, size=kinds.shape
  )
  pieces[:, -1] = -1  # Padding.
  return [pieces[:100], pieces[100:, :7], pieces[100:, 7:]]


@pytest.fixture(scope="module")
def values():
  return np.random.default_rng(1).normal(0.0, 0.2, (V, D)).astype(np.float32)


def test_pieces_with_the_same_neighbours_are_near_each_other(values):
  found = cooccurrence.embeddings(texts(), values, seed=3)
  unit = found / np.linalg.norm(found, axis=1, keepdims=True)
  similar = (unit @ unit.T)[:-1, :-1]
  kinds = np.arange(V - 1) // OF_KIND
  same = kinds[:, None] == kinds
  # At random 0.2, since a piece is like itself.
  assert similar[same].mean() > 0.8
  assert similar[~same].mean() < 0.2


def test_the_scale_is_kept_and_no_column_is_ahead(values):
  found = cooccurrence.embeddings(texts(), values, seed=3)[:-1]
  usual = np.sqrt(np.mean(np.sum(values**2, axis=1)))
  np.testing.assert_allclose(np.linalg.norm(found, axis=1), usual, rtol=1e-5)
  spread = np.sqrt(np.mean(found**2, axis=0))
  assert spread.max() < 3 * spread.min()


def test_what_is_read_too_seldom_keeps_its_values(values):
  rows = texts()
  rows[0][0, 0] = V - 1
  found = cooccurrence.embeddings(rows, values, seed=3)
  np.testing.assert_array_equal(found[-1], values[-1])
  assert not np.any(found[:-1] == values[:-1])


def test_the_seed_decides(values):
  one, same, other = (
    cooccurrence.embeddings(texts(), values, seed) for seed in (3, 3, 4)
  )
  np.testing.assert_array_equal(one, same)
  assert np.abs(one - other).max() > 0.1


def test_a_vocabulary_smaller_than_the_width():
  values = np.random.default_rng(1).normal(size=(6, D))
  rows = [np.random.default_rng(2).integers(6, size=(50, 9))]
  found = cooccurrence.embeddings(rows, values, seed=3)
  assert found.shape == (6, D)
  assert np.isfinite(found).all()
