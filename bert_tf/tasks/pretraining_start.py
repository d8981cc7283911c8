"""Initial values with which a small model learns from context at once.

From random values a small model learns for a thousand steps and more nothing
but which pieces are frequent: its heads attend to everything alike until they
find out which position is beside which. Here they begin with that, as the
heads of vision transformers do that begin as convolutions (Zheng et al. 2024,
arXiv 2401.12511), and the output begins with the pieces' frequencies.
"""

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf import heads, modeling

# What the heads of the first layer attend to, from where they are; further
# heads stay random.
_OFFSETS = (-1, 1, -2, 2)

# The score of that position before the softmax; others have about 0.
_SCORE = 6.0

# Batches whose labels are counted.
_NUM_COUNTED_BATCHES = 300


def set_values(
  model: heads.PretrainingModel,
  batches: Iterable[Mapping[str, tf.Tensor]],
  seed: int,
) -> None:
  """Sets positions, the first layer's heads and the output bias.

  Args:
    model: of random values.
    batches: labelled batches of training, of which the first are read.
    seed: of what is drawn.
  """
  variables = {variable.path: variable for variable in model.variables}
  found = neighbour_values(model.config, seed)
  found["cls/predictions/output_bias"] = _log_frequencies(
    batches, model.config.vocab_size
  )
  for name, value in found.items():
    variables[name].assign(value.astype(np.float32))


def neighbour_values(
  config: modeling.BertConfig, seed: int
) -> dict[str, np.ndarray]:
  """Returns values of the variables that make heads attend to neighbours.

  Each pair of columns of the position embeddings is a point that turns by an
  angle of its own from position to position. A head's key is what it sees of
  these points, its query the same turned by as many positions as its neighbour
  is away, so that query and key agree there and nowhere else.

  Returns:
    float64 arrays by name: position embeddings [max_position_embeddings, D],
    query and key of layer 0, [D, D]; segments are small, [types, D].
  """
  rng = np.random.default_rng(seed)
  width, num_heads = config.hidden_size, config.num_attention_heads
  size = width // num_heads
  angles = rng.uniform(0.0, np.pi, width // 2)
  spread = config.initializer_range
  turned = np.arange(config.max_position_embeddings)[:, None] * angles
  positions = np.zeros((config.max_position_embeddings, width))
  positions[:, 0 : 2 * len(angles) : 2] = np.cos(turned)
  positions[:, 1 : 2 * len(angles) : 2] = np.sin(turned)
  query, key = rng.normal(0.0, spread, (2, width, width))
  # After the layer norm half of a position's variance is the embedding's: a
  # key of size / 2 points agrees with its query by size / 2.
  gain = np.sqrt(_SCORE * 2.0 / np.sqrt(size))
  for head, offset in enumerate(_OFFSETS[:num_heads]):
    columns = slice(head * size, (head + 1) * size)
    query[:, columns], key[:, columns] = 0.0, 0.0
    for i, pair in enumerate(rng.permutation(len(angles))[: size // 2]):
      rows = slice(2 * pair, 2 * pair + 2)
      points = slice(head * size + 2 * i, head * size + 2 * i + 2)
      cos, sin = np.cos(offset * angles[pair]), np.sin(offset * angles[pair])
      key[rows, points] = gain * np.eye(2)
      query[rows, points] = gain * np.array([[cos, sin], [-sin, cos]])
  layer = "bert/encoder/layer_0/attention/self"
  shape = config.type_vocab_size, width
  return {
    "bert/embeddings/position_embeddings": np.sqrt(2.0) * spread * positions,
    "bert/embeddings/token_type_embeddings": rng.normal(0, spread / 10, shape),
    f"{layer}/query/kernel": query,
    f"{layer}/key/kernel": key,
  }


def _log_frequencies(
  batches: Iterable[Mapping[str, tf.Tensor]], vocab_size: int
) -> np.ndarray:
  """Returns the logarithm of how often a label is each piece, its mean 0."""
  counts = np.full(vocab_size, 0.5)  # None is impossible.
  for batch in itertools.islice(batches, _NUM_COUNTED_BATCHES):
    is_label = batch["masked_lm_weights"].numpy() > 0
    np.add.at(counts, batch["masked_lm_ids"].numpy()[is_label], 1)
  return np.log(counts) - np.log(counts).mean()
