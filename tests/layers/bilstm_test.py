"""BiLSTMs against the recurrence written in NumPy."""

import keras
import numpy as np

from bert_tf.layers import bilstm

LENGTHS = (6, 3, 1)


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def read(inputs, weights):
  """The outputs of an LSTM after each input (Hochreiter & Schmidhuber 1997)."""
  kernel, recurrent, bias = weights
  output = cell = np.zeros(recurrent.shape[0])
  result = []
  for x in inputs:
    gates = np.split(x @ kernel + output @ recurrent + bias, 4)
    taken, is_kept, shown = (sigmoid(gates[i]) for i in (0, 1, 3))
    cell = is_kept * cell + taken * np.tanh(gates[2])
    output = shown * np.tanh(cell)
    result.append(output)
  return np.array(result)


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
    left = read(inputs[i, :length], weights[:3])
    right = read(inputs[i, :length][::-1], weights[3:])[::-1]
    expected = np.concatenate([left, right], axis=-1)
    # float32.
    np.testing.assert_allclose(hidden[i, :length], expected, atol=1e-5)
    ends = np.concatenate([left[-1], right[0]])
    np.testing.assert_allclose(pooled[i], ends, atol=1e-5)
