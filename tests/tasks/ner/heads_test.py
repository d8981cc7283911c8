"""The head that labels word pieces, and its losses, against NumPy."""

import pathlib

import numpy as np
import tensorflow as tf

from bert_tf import modeling
from bert_tf.checkpoint import checkpoints
from bert_tf.model import heads

TINY = pathlib.Path(__file__).resolve().parents[2] / "golden" / "tiny"


def test_logits_are_a_linear_function_of_the_originals_last_layer():
  recorded = dict(np.load(TINY / "forward.npz"))
  config = modeling.BertConfig.from_json_file(str(TINY / "bert_config.json"))
  model = heads.TokenModel(config, num_labels=5)
  missing = checkpoints.init_from_checkpoint(
    model, str(TINY / "bert_model.ckpt")
  )
  assert missing == ["output_weights", "output_bias"]
  rng = np.random.default_rng(0)
  weights = rng.normal(size=(5, 32)).astype(np.float32)
  bias = rng.normal(size=5).astype(np.float32)
  model.output_weights.assign(weights)
  model.output_bias.assign(bias)
  names = ("input_ids", "input_mask", "segment_ids")
  logits = model({name: tf.constant(recorded[f"in/{name}"]) for name in names})
  expected = recorded["out/sequence_output"] @ weights.T + bias
  assert expected.shape == (8, 32, 5)
  # A float32 forward pass of two layers.
  np.testing.assert_allclose(logits, expected, atol=2e-5)
