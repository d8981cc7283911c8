"""BiLSTMs against the recurrence written in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from research import bilstm
from tests.support import numpy_lstm, runs

LENGTHS = (6, 3, 1)
CONFIG = modeling.BertConfig(**runs.CONFIG)


def test_both_directions_read_the_text_and_no_padding():
  keras.utils.set_random_seed(1)
  layer = bilstm.make(5, 4, "bilstm")
  for variable in layer.weights:
    noise = np.random.default_rng(2).normal(size=variable.shape)
    variable.assign(0.5 * noise)
  inputs = np.random.default_rng(1).normal(size=(3, 6, 5)).astype(np.float32)
  mask = np.arange(6) < np.array(LENGTHS)[:, None]
  hidden = layer(inputs, mask=mask)
  last_positions = np.array(LENGTHS)[:, None] - 1
  pooled = bilstm.summarise(hidden, last_positions).numpy()
  weights = [w.numpy().astype(np.float64) for w in layer.weights]
  for i, length in enumerate(LENGTHS):
    left = numpy_lstm.read(inputs[i, :length], weights[:3])
    right = numpy_lstm.read(inputs[i, :length][::-1], weights[3:])[::-1]
    expected = np.concatenate([left, right], axis=-1)
    # float32.
    np.testing.assert_allclose(hidden[i, :length], expected, atol=1e-5)
    ends = np.concatenate([left[-1], right[0]])
    np.testing.assert_allclose(pooled[i], ends, atol=1e-5)


def batch(width):
  """Two inputs of 9 and 5 pieces, padded."""
  rng = np.random.default_rng(1)
  ids = rng.integers(5, 500, (2, 9))
  mask = (np.arange(width) < np.array([[9], [5]])).astype(np.int32)
  padded = np.full((2, width), 7, np.int32)
  padded[:, :9] = ids
  return {
    "input_ids": tf.constant(padded),
    "input_mask": tf.constant(mask),
    "segment_ids": tf.zeros_like(padded),
  }


MODELS = {
  "classification": lambda: bilstm.BiLstmClassifierModel(CONFIG, 3),
  "span": lambda: bilstm.BiLstmSpanModel(CONFIG),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_head_reads_the_bilstm_and_ignores_padding(kind):
  keras.utils.set_random_seed(1)
  model = MODELS[kind]()
  is_real = tf.cast(batch(9)["input_mask"], tf.float32)
  with tf.GradientTape() as tape:
    outputs = [tf.stack(model(batch(width)), -1) for width in (9, 14)]
    if kind == "span":
      outputs = [logits[:, :9] * is_real[..., None] for logits in outputs]
    loss = tf.reduce_sum(tf.square(outputs[0]))
  np.testing.assert_allclose(*outputs, atol=1e-5)
  unused = {variable.path for variable in model.unused_variables}
  variables = model.trainable_variables
  for variable, gradient in zip(variables, tape.gradient(loss, variables)):
    assert (gradient is None) == (variable.path in unused), variable.path
