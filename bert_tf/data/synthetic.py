"""Synthetic pre-training batches, for timing steps without a text."""

from collections.abc import Mapping

import numpy as np

Batch = Mapping[str, np.ndarray]


def pretraining_batch(
  vocab_size: int, batch_size: int, length: int, num_predictions: int, seed: int
) -> Batch:
  """Returns a batch of random word pieces, without padding.

  Each example has 1 to `num_predictions` masked positions.
  """
  rng = np.random.default_rng(seed)

  def ints(end: int, *shape: int) -> np.ndarray:
    return rng.integers(end, size=shape, dtype=np.int32)

  positions = rng.permuted(np.tile(np.arange(length), (batch_size, 1)), axis=1)
  features = {
    "input_ids": ints(vocab_size, batch_size, length),
    "input_mask": np.ones((batch_size, length), np.int32),
    "segment_ids": ints(2, batch_size, length),
    "masked_lm_positions": positions[:, :num_predictions].astype(np.int32),
    "masked_lm_ids": ints(vocab_size, batch_size, num_predictions),
    "next_sentence_labels": ints(2, batch_size, 1),
  }
  num_masked = rng.integers(1, num_predictions + 1, (batch_size, 1))
  is_masked = np.arange(num_predictions) < num_masked
  return {**features, "masked_lm_weights": is_masked.astype(np.float32)}
