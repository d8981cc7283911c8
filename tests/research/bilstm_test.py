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
  names = {v.path for v in model.weights if v.path.startswith("bilstm/")}
  assert len(names) == 6

  is_real = batch(9)["input_mask"][..., None]

  def outputs(width):
    with tf.GradientTape() as tape:
      logits = model(batch(width))
      logits = tf.stack(logits, -1) if kind == "span" else logits
      if kind != "classification":
        logits = logits[:, :9] * tf.cast(is_real, tf.float32)
      loss = tf.reduce_sum(tf.square(tf.cast(logits, tf.float32)))
    return logits, tape.gradient(loss, model.trainable_variables)

  def cast(tensor):
    return np.asarray(tensor, np.float32)

  (short, gradients), (long, _) = outputs(9), outputs(14)
  np.testing.assert_allclose(cast(short), cast(long), atol=1e-5)
  unused = {variable.path for variable in model.unused_variables}
  for variable, gradient in zip(model.trainable_variables, gradients):
    is_read = variable.path not in unused
    assert (gradient is not None) == is_read, variable.path
    if variable.path in names:
      assert np.abs(gradient).max() > 0, variable.path
