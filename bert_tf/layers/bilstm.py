"""Bidirectional LSTMs on the outputs of BERT."""

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from bert_tf.tensor import Tensor


def make(
  input_size: int, units: int, name: str, dtype: Any = None
) -> keras.layers.Bidirectional:
  """Returns a built BiLSTM with random values.

  Call it with float [B, F, input_size] and a mask, bool [B, F]. It returns
  float [B, F, 2 * units]: the forward half, then the backward half.
  """
  # Not cuDNN's LSTM, which XLA cannot compile.
  lstm = keras.layers.LSTM(
    units, return_sequences=True, use_cudnn=False, name="lstm", dtype=dtype
  )
  bilstm = keras.layers.Bidirectional(lstm, name=name, dtype=dtype)
  bilstm.build((None, None, input_size))
  return bilstm


def on_top(hidden_size: int, dtype: Any = None) -> keras.layers.Bidirectional:
  """Returns a BiLSTM between BERT and a head, with input and output size D.

  Devlin et al. 2019, section 5.1, put one on the left-to-right model.
  """
  return make(hidden_size, hidden_size // 2, "bilstm", dtype)


def check_is_loaded(
  model: keras.Model, path: str, names: Iterable[str]
) -> None:
  """Checks that a head is not loaded without the BiLSTM below it.

  Args:
    model: the model to load; a BertModel needs no BiLSTM.
    path: path of the checkpoint, for the error.
    names: names of the checkpoint's tensors.

  Raises:
    ValueError: if the checkpoint has a BiLSTM and the model only a head.
  """
  has_only_head = getattr(model, "bilstm", True) is None
  if has_only_head and any(name.startswith("bilstm/") for name in names):
    raise ValueError(
      f"{path} has a BiLSTM between BERT and the head, the model of the config "
      "has none; give the bert_config.json of the run that trained it, whose "
      "bilstm is true."
    )


def summarise(hidden: Tensor, last_positions: Tensor) -> Tensor:
  """Returns the last output of each direction, concatenated.

  Args:
    hidden: float [B, F, D]. The output of a BiLSTM, forward half first.
    last_positions: int [B, 1]. The last position that is not masked, at which
      the forward half ends. The backward half ends at position 0.

  Returns:
    float [B, D].
  """
  half = hidden.shape[-1] // 2
  indexes = last_positions[:, :, None]
  forward = ops.take_along_axis(hidden, indexes, axis=1)[:, 0, :half]
  return ops.concatenate([forward, hidden[:, 0, half:]], axis=-1)
