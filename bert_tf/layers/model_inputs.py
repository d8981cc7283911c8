"""What models take as input: lists, arrays or tensors by name, checked."""

from collections.abc import Mapping
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from bert_tf.layers import serialization
from bert_tf.tensor import Tensor

_NAMES = ("input_ids", "input_mask", "segment_ids")

# What other libraries call them.
_OTHER_NAMES = {
  "attention_mask": "input_mask",
  "padding_mask": "input_mask",
  "token_type_ids": "segment_ids",
  "input_type_ids": "segment_ids",
  "input_word_ids": "input_ids",
  "token_ids": "input_ids",
}


class FeaturesModel(serialization.Configured, keras.Model):
  """A model of `input_ids`, `input_mask` and `segment_ids`.

  Attributes:
    input_shape_names: their dimensions.
  """

  input_shape_names: ClassVar[tuple[str, ...]] = ("B", "F")

  def __call__(self, features: Mapping[str, Any], **arguments: Any) -> Any:
    """Returns what `call` does, for features as `checked` takes them."""
    features = checked(features, self.input_shape_names)
    return super().__call__(features, **arguments)


def checked(
  features: Mapping[str, Any], shape_names: tuple[str, ...] = ("B", "F")
) -> dict[str, Tensor]:
  """Returns features with lists and arrays as tensors.

  Args:
    features: `input_ids` and, if need be, `input_mask`, `segment_ids` and what
      the model takes besides.
    shape_names: dimensions of these three.

  Raises:
    ValueError: if there are no `input_ids`, for another library's name, rows
      of different lengths, a wrong rank, ids that are no integers, or shapes
      that differ.
  """
  if not isinstance(features, Mapping):
    raise ValueError(
      f"the model was given a {type(features).__name__}; give a dict with "
      f"input_ids, int [{', '.join(shape_names)}]."
    )
  for other, name in _OTHER_NAMES.items():
    if other in features:
      raise ValueError(f"{other} is called {name} here; rename it.")
  if "input_ids" not in features:
    raise ValueError(
      f"there are no input_ids among {', '.join(features) or 'no features'}."
    )
  tensors = {name: _tensor(name, value) for name, value in features.items()}
  for name in _NAMES:
    if name in tensors:
      _check(name, tensors[name], tensors["input_ids"], shape_names)
  return tensors


def _tensor(name: str, value: Any) -> Tensor:
  """Returns a list or an array as a tensor, and others as they are."""
  if isinstance(value, list | tuple):
    try:
      value = np.array(value)
    except ValueError:
      raise ValueError(
        f"the rows of {name} have different lengths; fill the shorter ones "
        "with 0 and give an input_mask that is 0 there."
      ) from None
    if value.dtype.kind not in "biuf":
      raise ValueError(f"{name} holds strings or objects; give numbers.")
    if value.dtype == np.int64:
      value = value.astype(np.int32)
  if isinstance(value, np.ndarray):
    return ops.convert_to_tensor(value)
  return value


def _check(
  name: str, value: Tensor, input_ids: Tensor, shape_names: tuple[str, ...]
) -> None:
  """Raises ValueError for a wrong shape or a wrong type."""
  shape = tuple(value.shape)
  if len(shape) != len(shape_names):
    raise ValueError(
      f"{name} has the shape {list(shape)}; give [{', '.join(shape_names)}], "
      "a list of rows even for one text."
    )
  dtype = keras.backend.standardize_dtype(value.dtype)
  # A mask may be of any type: it is cast.
  if name != "input_mask" and "int" not in dtype:
    raise ValueError(f"{name} is {dtype}; give integers, such as int32.")
  for size, other in zip(shape, tuple(input_ids.shape)):
    if size is not None and other is not None and size != other:
      raise ValueError(
        f"{name} has the shape {list(shape)}, but input_ids "
        f"{list(input_ids.shape)}; give one number for each word piece."
      )
