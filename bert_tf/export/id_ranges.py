"""What word-piece ids and the like may be, checked in a SavedModel's graph."""

from collections.abc import Mapping

import tensorflow as tf

from bert_tf.modeling import Tensor


def highest_of(
  variables: Mapping[str, tf.Variable], length: Tensor
) -> dict[str, Tensor]:
  """Returns the highest number of each input, int32; the lowest is 0.

  Args:
    variables: of a BERT, by their names in checkpoints.
    length: F, int32.
  """
  num_words, num_types = (
    variables[f"bert/embeddings/{name}_embeddings"].shape[0]
    for name in ("word", "token_type")
  )
  highest = {
    "input_ids": num_words - 1,
    "input_mask": 1,
    "segment_ids": num_types - 1,
    # Without texts there is neither a position nor a mask.
    "masked_lm_positions": tf.maximum(length - 1, 0),
  }
  return {name: tf.convert_to_tensor(high) for name, high in highest.items()}


def checks(
  inputs: Mapping[str, Tensor], highest: Mapping[str, Tensor]
) -> list[tf.Operation]:
  """Returns what fails if an input holds a number that is out of its range.

  A gather with another number would silently take another row, and a one-hot
  row of it is empty. The converters to ONNX and LiteRT leave assertions out.
  """
  found = []
  for name in (name for name in highest if name in inputs):
    high, largest = highest[name], tf.reduce_max(inputs[name])
    # Of no numbers the largest integer, and the smallest one is their largest.
    smallest = tf.reduce_min(inputs[name])
    is_inside = (smallest >= 0) & (largest <= high)
    text = tf.strings.format(
      f"{name} holds {{}}, which is out of range; 0 to {{}} is allowed",
      (tf.where(smallest < 0, smallest, largest), high),
    )
    found.append(tf.raw_ops.Assert(condition=is_inside, data=[text]))
  return found
