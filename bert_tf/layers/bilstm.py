"""LSTMs that read a sequence from both ends."""

from typing import Any

import keras
from keras import ops

from bert_tf.layers import attention_mask
from bert_tf.layers.tensor import Tensor


def make(
  input_size: int, units: int, name: str, dtype: Any = None
) -> keras.layers.Bidirectional:
  """Returns a built BiLSTM with random values.

  It is called with float [B, F, input_size] and a mask, bool [B, F], and
  returns float [B, F, 2 * units]: what has been read from the left, then what
  from the right.
  """
  # cuDNN's would need another program than what XLA compiles.
  lstm = keras.layers.LSTM(
    units, return_sequences=True, use_cudnn=False, name="lstm", dtype=dtype
  )
  bilstm = keras.layers.Bidirectional(lstm, name=name, dtype=dtype)
  bilstm.build((None, None, input_size))
  return bilstm


def on_top(hidden_size: int, dtype: Any = None) -> keras.layers.Bidirectional:
  """Returns the BiLSTM between BERT and a head, which keeps the size (D)."""
  return make(hidden_size, hidden_size // 2, "bilstm", dtype)


def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
  """Returns what each direction knows when it has read all, float [B, D].

  `hidden`, float [B, F, D], is what a BiLSTM returned for the mask, whose first
  position is not masked. The forward half ends at the last such position.
  """
  half = hidden.shape[-1] // 2
  last = attention_mask.last_positions(mask, None, None)  # [B, 1]
  forward = ops.take_along_axis(hidden, last[:, :, None], axis=1)[:, 0]
  return ops.concatenate([forward[:, :half], hidden[:, 0, half:]], axis=-1)
