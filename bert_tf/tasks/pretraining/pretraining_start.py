"""Initial values that make a small model learn from context sooner.

From random values, a small model learns only the frequencies of pieces for its
first thousand steps: its heads attend uniformly until they discover which
positions are neighbours. Here, heads of the first layer start by attending to
neighbours, like heads of vision transformers that start as convolutions (Zheng
et al. 2024, arXiv 2401.12511), and the output bias starts with the frequencies.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf import distribution, modeling
from bert_tf.model import heads

# The neighbours that heads of the first layer attend to, as offsets. Further
# heads stay random.
_OFFSETS = (-1, 1, -2, 2)

# Attention score of the neighbour, before the softmax. The scores of other
# positions are about 0.
_SCORE = 6.0

# Number of batches in which frequencies are counted.
_NUM_COUNTED_BATCHES = 300


def set_values(
  model: heads.PretrainingModel,
  batches: Iterable[Mapping[str, tf.Tensor]],
  seed: int,
) -> None:
  """Sets the positions, the first layer's heads and the output bias.

  Args:
    model: a model with random values.
    batches: labelled training batches; only the first are read.
    seed: seed of the random values.
  """
  labels = [
    batch["masked_lm_ids"].numpy()[batch["masked_lm_weights"].numpy() > 0]
    for batch in itertools.islice(batches, _NUM_COUNTED_BATCHES)
  ]
  values = neighbour_values(model.config, seed)
  values |= bias_values(np.concatenate(labels), model.config.vocab_size)
  assign(model, values)


def assign(
  model: heads.PretrainingModel, values: Mapping[str, np.ndarray]
) -> None:
  """Sets variables by name; raises ValueError if processes differ."""
  variables = {variable.path: variable for variable in model.variables}
  digest = hashlib.sha256()
  for name, value in values.items():
    variables[name].assign(value.astype(np.float32))
    digest.update(value.astype(np.float32).tobytes())
  distribution.check_same({"hash of the initial values": digest.hexdigest()})


def neighbour_values(
  config: modeling.BertConfig, seed: int
) -> dict[str, np.ndarray]:
  """Returns values of the variables that make heads attend to neighbours.

  Each pair of columns of the position embeddings is a point on a circle. Its
  angle is proportional to the position. A head's key projects some of these
  pairs. Its query projects the same pairs, rotated by the offset of its
  neighbour, so that query and key agree only at the neighbour.

  Returns:
    float64 arrays by name: position embeddings [max_position_embeddings, D],
    segment embeddings [types, D], query and key of layer 0 [D, D].
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
  # After the layer norm, half of the variance comes from the position
  # embedding, so each pair adds 1 to the product of a key and its matching
  # query. The gain turns the sum of size / 2 pairs, over sqrt(size), into
  # _SCORE.
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


def bias_values(labels: np.ndarray, vocab_size: int) -> dict[str, np.ndarray]:
  """Returns the output bias: the pieces' log frequencies, shifted to mean 0."""
  # Adding 0.5 prevents the logarithm of 0.
  counts = 0.5 + np.bincount(labels, minlength=vocab_size)
  return {"cls/predictions/output_bias": np.log(counts) - np.log(counts).mean()}
