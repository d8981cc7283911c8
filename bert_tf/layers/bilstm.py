"""LSTMs that read a sequence from both ends."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
from keras import ops

from bert_tf.layers import attention_mask
from bert_tf.tensor import Tensor


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


def check_is_loaded(
  model: keras.Model, path: str, names: Iterable[str]
) -> None:
  """Checks that a head is not opened without the BiLSTM that it was trained on.

  Args:
    model: what the checkpoint is loaded into; BERT without a head reads none.
    path: of the checkpoint, for the error.
    names: of its tensors.

  Raises:
    ValueError: if the checkpoint has a BiLSTM and the model has a head alone.
  """
  has_head_alone = getattr(model, "bilstm", True) is None
  if has_head_alone and any(name.startswith("bilstm/") for name in names):
    raise ValueError(
      f"{path} has a BiLSTM between BERT and the head, the model of the config "
      "has none; give the bert_config.json of the run that trained it, whose "
      "bilstm is true."
    )


def mask_of(features: Mapping[str, Tensor]) -> Tensor:
  """Returns whether each position is a real one, bool [B, F]."""
  ids = features["input_ids"]
  return ops.greater(features.get("input_mask", ops.ones_like(ids)), 0)


def pooled(hidden: Tensor, mask: Tensor) -> Tensor:
  """Returns what each direction knows when it has read all, float [B, D].

  `hidden`, float [B, F, D], is what a BiLSTM returned for the mask, whose first
  position is not masked. The forward half ends at the last such position.
  """
  half = hidden.shape[-1] // 2
  last = attention_mask.last_positions(mask, None, None)  # [B, 1]
  forward = ops.take_along_axis(hidden, last[:, :, None], axis=1)[:, 0]
  return ops.concatenate([forward[:, :half], hidden[:, 0, half:]], axis=-1)
