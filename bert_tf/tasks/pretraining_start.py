"""Initial values with which a small model learns from context at once.

From random values a small model learns for a thousand steps and more nothing
but which pieces are frequent: its heads attend to everything alike until they
find out which position is beside which. Here they begin with that, as the
heads of vision transformers do that begin as convolutions (Zheng et al. 2024,
arXiv 2401.12511), and the output begins with the pieces' frequencies. Word
embeddings may begin with which pieces stand near each other, and then what is
between them and the output begins by leaving them nearly as they are.
"""

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from bert_tf import distribution, heads, modeling
from bert_tf.tasks import cooccurrence, pretraining_config

# What the heads of the first layer attend to, from where they are; further
# heads stay random.
_OFFSETS = (-1, 1, -2, 2)

# The score of that position before the softmax; others have about 0.
_SCORE = 6.0

# The head's dense layer, times the identity: so small that gelu is as good as
# linear, and the layer norm behind it gives back what came in.
_HEAD_SCALE = 0.1

# The feed-forward layers' outputs, of usual initial values.
_FEED_FORWARD_SCALE = 0.1

# Batches that are counted: frequencies need fewer.
_NUM_COUNTED_BATCHES = {
  pretraining_config.NEIGHBOURS: 300,
  pretraining_config.COOCCURRENCE: 2_000,
}


def set_values(
  model: heads.PretrainingModel,
  initial_values: str,
  batches: Iterable[Mapping[str, tf.Tensor]],
  seed: int,
) -> None:
  """Sets the embeddings, the first layer's heads and the output bias.

  Args:
    model: of random values.
    initial_values: neighbours or cooccurrence, which sets word embeddings too,
      and what they pass through.
    batches: labelled batches of training, of which the first are read.
    seed: of what is drawn.

  Raises:
    ValueError: if other processes find other values.
  """
  variables = {variable.path: variable for variable in model.variables}
  num_batches = _NUM_COUNTED_BATCHES[initial_values]
  texts, labels = _read(itertools.islice(batches, num_batches))
  found = neighbour_values(model.config, seed)
  if initial_values == pretraining_config.COOCCURRENCE:
    words = variables["bert/embeddings/word_embeddings"]
    found[words.path] = cooccurrence.embeddings(texts, words.numpy(), seed)
    found |= _passing_values(variables)
  found["cls/predictions/output_bias"] = _log_frequencies(
    labels, model.config.vocab_size
  )
  digest = hashlib.sha256()
  for name, value in found.items():
    variables[name].assign(value.astype(np.float32))
    digest.update(value.astype(np.float32).tobytes())
  distribution.check_same({"hash of the initial values": digest.hexdigest()})


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


def _passing_values(
  variables: Mapping[str, keras.Variable],
) -> dict[str, np.ndarray]:
  """Returns values with which the embeddings reach the output nearly whole.

  The head's dense layer gives back what it is given, and feed-forward layers,
  which know nothing yet, add less to it than at random.

  Returns:
    float arrays by name, [D, D] and [I, D], I the intermediate size.
  """
  dense = "cls/predictions/transform/dense/kernel"
  found = {dense: _HEAD_SCALE * np.eye(variables[dense].shape[0])}
  for name, variable in variables.items():
    if re.fullmatch(r"bert/encoder/layer_\d+/output/dense/kernel", name):
      found[name] = _FEED_FORWARD_SCALE * variable.numpy()
  return found


def _read(
  batches: Iterable[Mapping[str, tf.Tensor]],
) -> tuple[list[np.ndarray], np.ndarray]:
  """Returns the text of batches, and the labels in it.

  Returns:
    For each batch int [B, T], -1 for padding, masked pieces in their places.
    int [M], the masked pieces.
  """
  texts, labels = [], []
  for batch in batches:
    values = {name: tensor.numpy() for name, tensor in batch.items()}
    pieces = np.where(values["input_mask"] > 0, values["input_ids"], -1)
    row, number = np.nonzero(values["masked_lm_weights"])
    of_batch = values["masked_lm_ids"][row, number]
    pieces[row, values["masked_lm_positions"][row, number]] = of_batch
    texts.append(pieces)
    labels.append(of_batch)
  return texts, np.concatenate(labels)


def _log_frequencies(labels: np.ndarray, vocab_size: int) -> np.ndarray:
  """Returns the logarithm of how often a label is each piece, its mean 0."""
  counts = 0.5 + np.bincount(
    labels, minlength=vocab_size
  )  # None is impossible.
  return np.log(counts) - np.log(counts).mean()
