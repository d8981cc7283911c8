"""Initial values that attend to neighbouring positions."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint.model_folder import ModelFolder
from bert_tf.model import heads
from bert_tf.tasks.pretraining import pretraining_start
from tests.support import pretrainings, runs

CONFIG = {
  **runs.CONFIG,
  "initializer_range": 0.17,
  "hidden_dropout_prob": 0.0,
  "attention_probs_dropout_prob": 0.0,
}


def softmax(scores):
  powers = np.exp(scores - scores.max(-1, keepdims=True))
  return powers / powers.sum(-1, keepdims=True)


def attention(model, ids):
  """The attention of the first layer, [N, F, F], computed in NumPy."""
  values = {v.path: v.numpy().astype(np.float64) for v in model.variables}
  tables = "word_embeddings", "position_embeddings", "token_type_embeddings"
  words, positions, segments = (
    values[f"bert/embeddings/{name}"] for name in tables
  )
  total = words[ids] + positions[: len(ids)] + segments[0]
  total -= total.mean(-1, keepdims=True)
  normed = total / total.std(-1, keepdims=True)
  layer = "bert/encoder/layer_0/attention/self"
  query, key = (
    (normed @ values[f"{layer}/{name}/kernel"]).reshape(
      len(ids), model.config.num_attention_heads, -1
    )
    for name in ("query", "key")
  )
  scores = np.einsum("fnh,tnh->nft", query, key) / np.sqrt(query.shape[-1])
  return softmax(scores)


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_attention_heads_start_with_neighbouring_positions(num_heads):
  config = modeling.BertConfig.from_dict(
    {
      **CONFIG,
      "hidden_size": 64 * num_heads,
      "num_attention_heads": num_heads,
      "vocab_size": 500,
      "max_position_embeddings": 512,
      "initializer_range": 1 / np.sqrt(64 * num_heads),
    }
  )
  model = heads.PretrainingModel(config)
  batch = {
    "input_ids": tf.constant([[2, 4, 4, 3], [2, 4, 4, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 1], [1, 1, 1, 1]]),
    "masked_lm_positions": tf.constant([[1, 2, 0], [1, 2, 0]]),
    "masked_lm_ids": tf.constant([[5, 7, 5], [5, 9, 9]]),
    "masked_lm_weights": tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]),
  }
  pretraining_start.set_values(model, [batch], seed=3)
  probabilities = attention(
    model, np.random.default_rng(1).integers(500, size=128)
  )
  for head, offset in enumerate((-1, 1, -2, 2)[:num_heads]):
    beside = np.diagonal(probabilities[head], offset)
    assert beside.mean() > 0.5, (head, offset, beside.mean())
  for random_head in probabilities[4:]:
    assert all(np.diagonal(random_head, d).mean() < 0.1 for d in range(-2, 3))
  biases = {v.path: v.numpy().astype(np.float64) for v in model.variables}
  frequencies = softmax(biases["cls/predictions/output_bias"])
  assert frequencies[5] / frequencies[7] == pytest.approx(2.5 / 1.5, rel=1e-5)
  assert frequencies[9] / frequencies[8] == pytest.approx(1.5 / 0.5, rel=1e-5)


def test_values_of_a_checkpoint_are_not_replaced(tmp_path):
  (tmp_path / "config.json").write_text(json.dumps(CONFIG))
  config = pretrainings.make(
    tmp_path,
    {"init_checkpoint": "bert_model.ckpt"},
    initial_values="neighbours",
  )
  file = config.bert_config_file
  model = ModelFolder.open(None, bert_config_file=file)
  with pytest.raises(
    ValueError, match="initial_values=neighbours .*init_checkpoint"
  ):
    config.resolve_for_run(model, None)
