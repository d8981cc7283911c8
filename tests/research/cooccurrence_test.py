"""Word embeddings from counts of neighbouring words."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model import heads
from research.ablations import cooccurrence
from tests.support import runs

CONFIG = {
  **runs.CONFIG,
  "initializer_range": 0.17,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
}
NUM_KINDS, OF_KIND, D = 12, 5, 16
V = NUM_KINDS * OF_KIND + 1  # The last piece does not occur.


def texts(num_rows=600, length=12):
  """Kinds of pieces follow each other in a cycle; each piece is random."""
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
  embeddings = cooccurrence.embeddings(texts(), values, seed=3)
  unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
  similar = (unit @ unit.T)[:-1, :-1]
  kinds = np.arange(V - 1) // OF_KIND
  same = kinds[:, None] == kinds
  # Random embeddings have 0.2, since each piece equals itself.
  assert similar[same].mean() > 0.8
  assert similar[~same].mean() < 0.2


def test_rare_pieces_keep_their_values(values):
  rows = texts()
  rows[0][0, 0] = V - 1
  embeddings = cooccurrence.embeddings(rows, values, seed=3)
  np.testing.assert_array_equal(embeddings[-1], values[-1])
  assert not np.any(embeddings[:-1] == values[:-1])


def test_words_are_counted_in_their_places_without_padding(monkeypatch):
  texts = []

  def embeddings(batches, values, seed):
    texts.extend(batches)
    return values + 1.0

  monkeypatch.setattr(cooccurrence, "embeddings", embeddings)
  model = heads.PretrainingModel(modeling.BertConfig.from_dict(CONFIG))
  words = model.bert.embeddings.word_embeddings
  before = words.numpy()
  batch = {
    "input_ids": tf.constant([[2, 4, 8, 3], [2, 4, 3, 0]]),
    "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 0]]),
    "masked_lm_positions": tf.constant([[1, 2], [1, 0]]),
    "masked_lm_ids": tf.constant([[7, 8], [9, 0]]),
    "masked_lm_weights": tf.constant([[1.0, 1.0], [1.0, 0.0]]),
  }
  cooccurrence.set_values(model, [batch], seed=3)
  np.testing.assert_array_equal(words.numpy(), before + 1.0)
  np.testing.assert_array_equal(texts, [[[2, 7, 8, 3], [2, 9, 3, -1]]])
