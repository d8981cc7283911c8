"""The input of a model: features checked, then resolved into `ModelInputs`.

A batch may lack masks and segments, hold several inputs in one row, or be read
in one direction only. The layers know none of it.

Shapes: B batch, F from (query) positions, T to (key) positions, K inputs that
are packed into a row.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import keras
import numpy as np
from keras import ops

from bert_tf.files import errors
from bert_tf.kernels import backend
from bert_tf.tensor import Tensor

# What a position attends to: all of its input (BERT), itself and those before
# it (Devlin et al. 2019, section 5.1), or itself and those after it.
Direction = Literal["both", "left_to_right", "right_to_left"]
BOTH, LEFT_TO_RIGHT, RIGHT_TO_LEFT = DIRECTIONS = get_args(Direction)

# Added to the score of a position that is ignored, as in the original release.
# Minus infinity would make the softmax NaN for a row of padding.
IGNORED = -10000.0

# Feature names of other libraries and their names here.
_OTHER_NAMES = {
  "attention_mask": "input_mask",
  "padding_mask": "input_mask",
  "token_type_ids": "segment_ids",
  "input_type_ids": "segment_ids",
  "input_word_ids": "input_ids",
  "token_ids": "input_ids",
}
# What every model reads.
_NAMES = ("input_ids", "input_mask", "segment_ids", "cls_positions")
# The keys of the config that limit values.
LIMITS = {"input_ids": "vocab_size", "segment_ids": "type_vocab_size"}
# How the names of what only losses read begin.
_LABELS = (
  *("label_", "masked_lm_", "next_sentence_", "start_", "end_"),
  *("is_real_example", "unique_id"),
)


class ModelInputs(NamedTuple):
  """A batch as the encoder takes it."""

  input_ids: Tensor  # int [B, F]. Word-piece ids; 0 is [PAD].
  segment_ids: Tensor  # int [B, F].
  # int [F], or [B, F] for packed sequences, which count from 0 in each input.
  position_ids: Tensor
  # float32 [B, 1, T], or [B, F, T] if it differs between positions. 0 to
  # attend to a position, -10000 to ignore it.
  attention_bias: Tensor
  # int [B, K]. The position whose output summarises each input: [CLS], or the
  # last position if the model reads from left to right.
  summary_positions: Tensor

  @property
  def is_packed(self) -> bool:
    """Whether rows can hold several inputs."""
    return len(self.position_ids.shape) == 2


def prepare(
  features: Mapping[str, Tensor], direction: Direction
) -> ModelInputs:
  """Returns the inputs of the encoder.

  Args:
    features: tensors by name, see BertModel.call.
    direction: what a position attends to.
  """
  input_ids = features["input_ids"]
  input_mask = features.get("input_mask")
  if input_mask is None:
    input_mask = ops.ones_like(input_ids)
  segment_ids = features.get("segment_ids")
  if segment_ids is None:
    segment_ids = ops.zeros_like(input_ids)
  cls_positions = features.get("cls_positions")

  length = ops.shape(input_ids)[1]
  positions = ops.arange(length)
  position_ids, starts = positions, None
  is_attended = ops.expand_dims(ops.cast(input_mask, "float32"), 1)  # [B, 1, T]
  if cls_positions is not None:
    starts = _segment_starts(cls_positions, length)
    position_ids = positions - starts
    is_same = ops.equal(starts[:, :, None], starts[:, None, :])
    is_attended = is_attended * ops.cast(is_same, "float32")  # [B, F, T]
  if direction != BOTH:
    query, key = positions[:, None], positions[None, :]
    is_seen = {LEFT_TO_RIGHT: key <= query, RIGHT_TO_LEFT: key >= query}
    is_attended *= ops.cast(is_seen[direction], "float32")  # [B, F, T]
  if direction == LEFT_TO_RIGHT:
    # Only the last position has attended to the whole input.
    summary_positions = last_positions(input_mask, starts, cls_positions)
  elif cls_positions is not None:
    summary_positions = cls_positions
  else:
    # Not a slice of [B, F]: its second dimension would be unknown if F is.
    summary_positions = ops.zeros_like(input_ids[:, 0])[:, None]
  return ModelInputs(
    input_ids=input_ids,
    segment_ids=segment_ids,
    position_ids=position_ids,
    attention_bias=(1.0 - is_attended) * IGNORED,
    summary_positions=ops.cast(summary_positions, "int32"),
  )


def _segment_starts(cls_positions: Tensor, length: Tensor | int) -> Tensor:
  """Returns the index at which the input of each position begins, int [B, F].

  cls_positions, int [B, K], are those of BertModel.call; `length` is F.
  """
  begins = cls_positions[:, None, :]  # [B, 1, K]
  positions = ops.arange(length, dtype=cls_positions.dtype)[None, :, None]
  # The largest begin at or before the position. Unused slots are 0 and never
  # exceed a begin.
  has_begun = ops.cast(begins <= positions, cls_positions.dtype)
  return ops.max(begins * has_begun, axis=-1)


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
  is_own = ops.cast(input_mask, "float32")[:, None, :] > 0  # [B, 1, F]
  if starts is not None and cls_positions is not None:
    is_same = ops.equal(starts[:, None, :], cls_positions[:, :, None])
    is_own = ops.logical_and(is_own, is_same)  # [B, K, F]
  return ops.max(positions * ops.cast(is_own, "int32"), axis=-1)


def gather_indexes(values: Tensor, positions: Tensor) -> Tensor:
  """Returns [B, Q, ...]: the values, [B, F, ...], at positions, int [B, Q]."""
  batch_size, length, *sizes = ops.shape(values)
  first_indexes = ops.arange(batch_size, dtype="int32") * length
  indexes = ops.cast(positions, "int32") + first_indexes[:, None]
  rows = ops.reshape(values, (-1, *sizes))
  gathered = ops.take(rows, ops.reshape(indexes, (-1,)), axis=0)
  return ops.reshape(gathered, (*ops.shape(positions), *sizes))


def check_features(
  features: Mapping[str, Any],
  shape_names: tuple[str, ...] = ("B", "F"),
  more_names: tuple[str, ...] = (),
) -> dict[str, Tensor]:
  """Returns the features, with lists and arrays converted to tensors.

  `more_names` are those of features that only some models read.

  Raises:
    ValueError: if `input_ids` are missing, a feature has a name that the model
      does not read, a rank is wrong, ids are not integers, or shapes differ.
  """
  if not isinstance(features, Mapping):
    raise ValueError(
      f"the model was given a {type(features).__name__}, not a dict with "
      "input_ids."
    )
  for other, name in _OTHER_NAMES.items():
    if other in features:
      raise ValueError(f"{other} is called {name} here; rename it.")
  names = (*_NAMES, *more_names)
  for name in features:
    if name not in names and not name.startswith(_LABELS):
      raise ValueError(
        f"the model reads {', '.join(names)}, but no {name}."
        f"{errors.did_you_mean(name, names, cutoff=0.5)} The name of a label "
        "begins with label_."
      )
  if "input_ids" not in features:
    raise ValueError(
      f"the features lack input_ids: {', '.join(features) or 'there are none'}."
    )
  tensors = {}
  for name, value in features.items():
    if isinstance(value, list | tuple):
      value = np.array(value)
      if value.dtype == np.int64:
        value = value.astype(np.int32)
    if isinstance(value, np.ndarray):
      value = ops.convert_to_tensor(value)
    tensors[name] = value
  expected = list(tensors["input_ids"].shape)
  for name in ("input_ids", "input_mask", "segment_ids"):
    if name not in tensors:
      continue
    shape = list(tensors[name].shape)
    if len(shape) != len(shape_names):
      raise ValueError(
        f"{name} has the shape {shape}, not [{', '.join(shape_names)}]."
      )
    dtype = keras.backend.standardize_dtype(tensors[name].dtype)
    # A mask may have any type, since the model casts it.
    if name != "input_mask" and "int" not in dtype:
      raise ValueError(f"{name} is {dtype}, not integers.")
    if any(a != b and None not in (a, b) for a, b in zip(shape, expected)):
      raise ValueError(
        f"{name} has the shape {shape}, but input_ids have {expected}."
      )
  return tensors


def check_values(
  features: Mapping[str, Tensor | None], vocab_size: int, type_vocab_size: int
) -> None:
  """Raises ValueError for a value that would silently stand for another one.

  A compiled step does not know its values yet, so it skips this check.
  """
  if backend.is_tensorflow():
    import tensorflow as tf

    if not tf.executing_eagerly():
      return
  length = features["input_ids"].shape[-1]  # type: ignore[union-attr]
  sizes = {
    "input_ids": vocab_size,
    "input_mask": 2,
    "segment_ids": type_vocab_size,
    "cls_positions": length,
    "positions": length,
    "masked_lm_positions": length,
  }
  for name, size in sizes.items():
    if features.get(name) is None:
      continue
    try:
      values = ops.convert_to_numpy(features[name])
    except (TypeError, ValueError):  # It is traced on another backend.
      return
    for value in (values.min(), values.max()) if values.size else ():
      if not 0 <= value < size:
        key = f" ({LIMITS[name]} {size})" if name in LIMITS else ""
        raise ValueError(
          f"{name} has the value {value}, which is not in 0 to {size - 1}{key}."
        )
