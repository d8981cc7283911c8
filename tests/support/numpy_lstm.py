"""An LSTM in NumPy (Hochreiter and Schmidhuber 1997)."""

import numpy as np


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def read(inputs, weights):
  """Returns the outputs of an LSTM after each input; gates as in Keras."""
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
