"""The input of a model: features checked, then resolved into `ModelInputs`.

A batch may lack masks and segments, hold several inputs in one row, or be read
in one direction only. The layers know none of it.

Shapes: B batch, F from (query) positions, T to (key) positions, K inputs that
are packed into a row.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bert_tf.model.model_config import BertConfig
from bert_tf.model.tensor import Tensor

# What every model reads, and the features that only its losses read, by the
# beginning of their names.
_INPUTS = ("input_ids", "input_mask", "segment_ids", "cls_positions")
_LABELS = (
  *("label_", "masked_lm_", "next_sentence_", "start_", "end_"),
  *("is_real_example", "unique_id"),
)
# The keys of the config that limit values.
LIMITS = {"input_ids": "vocab_size", "segment_ids": "type_vocab_size"}


class AttentionInputs(NamedTuple):
  """What every encoder layer takes besides its hidden input."""

  # float32 [B, 1, T], or [B, F, T] if it differs between positions. Added to
  # the scores of all heads: 0 to attend to a position, -10000 to ignore it.
  bias: Tensor
  # float [B, Q, D]. The hidden input at the positions to compute; None for all.
  queries: Tensor | None = None

  def select(self, hidden: Tensor, positions: Tensor) -> "AttentionInputs":
    """Returns the inputs that compute a layer at positions, int [B, Q], only.

    `hidden` is the layer's hidden input, float [B, F, D].
    """
    bias = self.bias
    if bias.shape[1] != 1:  # It differs between queries.
      bias = gather_indexes(bias, positions)
    return AttentionInputs(bias, gather_indexes(hidden, positions))


class ModelInputs(NamedTuple):
  """A batch as the embeddings and the encoder take it."""

  input_ids: Tensor  # int [B, F]. Word-piece ids; 0 is [PAD].
  segment_ids: Tensor  # int [B, F].
  # int [F], or [B, F] for packed sequences, which count from 0 in each input.
  position_ids: Tensor
  attention: AttentionInputs
  # int [B, K]. The position whose output summarises each input: [CLS], or the
  # last position if the model reads from left to right.
  summary_positions: Tensor

  @property
  def is_packed(self) -> bool:
    """Whether rows can hold several inputs."""
    return len(self.position_ids.shape) == 2


def prepare(features: Mapping[str, Tensor], config: BertConfig) -> ModelInputs:
  """Returns the inputs of the encoder for features as in BertModel.call."""
  input_ids = features["input_ids"]
  input_mask = features.get("input_mask")
  if input_mask is None:
    input_mask = ops.ones_like(input_ids)
  segment_ids = features.get("segment_ids")
  if segment_ids is None:
    segment_ids = ops.zeros_like(input_ids)
  cls_positions = features.get("cls_positions")
  positions = ops.arange(ops.shape(input_ids)[1])
  position_ids, starts = positions, None
  is_attended = ops.expand_dims(ops.cast(input_mask, "float32"), 1)  # [B, 1, T]
  if cls_positions is not None:
    cls_positions = ops.cast(cls_positions, "int32")  # NumPy's have 64 bits.
    # The largest begin at or before a position is that of its input, int
    # [B, F]. Unused slots are 0 and never exceed a begin.
    begins = cls_positions[:, None, :]  # [B, 1, K]
    has_begun = ops.cast(begins <= positions[None, :, None], "int32")
    starts = ops.max(begins * has_begun, axis=-1)
    position_ids = positions - starts
    is_same = ops.equal(starts[:, :, None], starts[:, None, :])
    is_attended = is_attended * ops.cast(is_same, "float32")  # [B, F, T]
  if config.attention_direction != "both":
    query, key = positions[:, None], positions[None, :]
    is_seen = {"left_to_right": key <= query, "right_to_left": key >= query}
    is_attended *= ops.cast(is_seen[config.attention_direction], "float32")
  if config.attention_direction == "left_to_right":
    # Only the last position has attended to the whole input.
    summary_positions = last_positions(input_mask, starts, cls_positions)
  elif cls_positions is not None:
    summary_positions = cls_positions
  else:
    # Not a slice of [B, F]: its second dimension would be unknown if F is.
    summary_positions = ops.zeros_like(input_ids[:, 0])[:, None]
  # As in the original release. Minus infinity would make the softmax NaN for a
  # row of padding.
  bias = (1.0 - is_attended) * -10000.0
  return ModelInputs(
    input_ids=input_ids,
    segment_ids=segment_ids,
    position_ids=position_ids,
    attention=AttentionInputs(bias),
    summary_positions=ops.cast(summary_positions, "int32"),
  )


def last_positions(
  input_mask: Tensor,
  starts: Tensor | None = None,
  cls_positions: Tensor | None = None,
) -> Tensor:
  """Returns the last real position of each input, int32 [B, K].

  The position of an unused slot is 0. Without `starts`, int [B, F], and
  `cls_positions`, int [B, K], a row is one input, and K is 1.
  """
  positions = ops.arange(ops.shape(input_mask)[1], dtype="int32")
  is_real = ops.cast(input_mask, "float32")[:, None, :] > 0  # [B, 1, F]
  if starts is not None and cls_positions is not None:
    is_same = ops.equal(starts[:, None, :], cls_positions[:, :, None])
    is_real = ops.logical_and(is_real, is_same)  # [B, K, F]
  return ops.max(positions * ops.cast(is_real, "int32"), axis=-1)


def gather_indexes(values: Tensor, positions: Tensor) -> Tensor:
  """Returns [B, Q, ...]: the values, [B, F, ...], at positions, int [B, Q]."""
  batch_size, length, *sizes = ops.shape(values)
  first_indexes = ops.arange(batch_size, dtype="int32") * length
  indexes = ops.cast(positions, "int32") + first_indexes[:, None]
  rows = ops.reshape(values, (-1, *sizes))
  gathered = ops.take(rows, ops.reshape(indexes, (-1,)), axis=0)
  return ops.reshape(gathered, (*ops.shape(positions), *sizes))


def check_features(
  features: Mapping[str, Any], shape_names: tuple[str, ...] = ("B", "F")
) -> dict[str, Tensor]:
  """Returns the features, with lists and arrays converted to tensors.

  `shape_names` are the axes of `input_ids`, `input_mask` and `segment_ids`.

  Raises:
    ValueError: if `input_ids` are missing, a feature has a name that the model
      does not read, a rank is wrong, ids are not integers, or shapes differ.
  """
  if not isinstance(features, Mapping) or "input_ids" not in features:
    names = ", ".join(features) if isinstance(features, Mapping) else ""
    raise ValueError(
      "the model needs a dict with input_ids, but was given "
      f"{names or type(features).__name__}."
    )
  tensors = {}
  for name, value in features.items():
    if name not in _INPUTS and not name.startswith(_LABELS):
      raise ValueError(
        f"the model reads {', '.join(_INPUTS)}, but no {name} (transformers' "
        "attention_mask and token_type_ids are input_mask and segment_ids "
        "here). The name of a label begins with label_."
      )
    is_array = isinstance(value, list | tuple | np.ndarray)
    tensors[name] = ops.convert_to_tensor(value) if is_array else value
  expected = [*tensors["input_ids"].shape]
  for name in ("input_ids", "input_mask", "segment_ids"):
    if name not in tensors:
      continue
    shape, axes = [*tensors[name].shape], ", ".join(shape_names)
    if len(shape) != len(shape_names):
      raise ValueError(f"{name} has the shape {shape}, not [{axes}].")
    if any(a != b and None not in (a, b) for a, b in zip(shape, expected)):
      raise ValueError(
        f"{name} has the shape {shape}, but input_ids have {expected}."
      )
    dtype = keras.backend.standardize_dtype(tensors[name].dtype)
    if dtype == "float64" and _values(tensors[name]) is None:
      # Before `fit` under a strategy of TensorFlow, Keras traces the model with
      # the type of the mean over replicas.
      tensors[name] = ops.cast(tensors[name], "int32")
    # A mask may have any type, since the model casts it.
    elif name != "input_mask" and "int" not in dtype:
      raise ValueError(f"{name} is {dtype}, not integers.")
  return tensors


def count_values(config: BertConfig, length: Any) -> dict[str, Any]:
  """Returns how many values, from 0, each feature of this length can have."""
  positions = ("cls_positions", "positions", "masked_lm_positions")
  of_config = {name: getattr(config, key) for name, key in LIMITS.items()}
  return {"input_mask": 2, **dict.fromkeys(positions, length), **of_config}


def check_values(
  features: Mapping[str, Any], config: BertConfig, positions: Any = None
) -> None:
  """Raises ValueError for a value that would silently stand for another one.

  Skips the features of a compiled step, whose values are not known yet.
  """
  sizes = count_values(config, features["input_ids"].shape[-1])
  features = {**features, "positions": positions}
  for name, size in sizes.items():
    values = _values(features.get(name))
    for value in (values.min(), values.max()) if values is not None else ():
      if not 0 <= value < size:
        key = f" ({LIMITS[name]} {size})" if name in LIMITS else ""
        raise ValueError(
          f"{name} has the value {value}, which is not in 0 to {size - 1}{key}."
        )


def _values(tensor: Any) -> np.ndarray | None:
  """Returns the values of a tensor; None if it is traced, empty or None."""
  try:
    values = None if tensor is None else ops.convert_to_numpy(tensor)
  except (TypeError, ValueError, NotImplementedError):
    return None
  return values if values is not None and values.size else None
