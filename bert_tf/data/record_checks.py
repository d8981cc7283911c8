"""Checks that the values of a record are in range."""

import functools
import math
import operator
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from google.protobuf import message

Spec = Mapping[str, tf.io.FixedLenFeature]


def highest_values(
  spec: Spec, vocab_size: int, type_vocab_size: int
) -> dict[str, float]:
  """Returns the highest allowed value of each feature. The lowest is 0."""
  length = spec["input_ids"].shape[-1] if "input_ids" in spec else 0
  highest = {
    "input_ids": vocab_size - 1,
    "input_mask": 1,
    "segment_ids": type_vocab_size - 1,
    "masked_lm_positions": length - 1,
    "masked_lm_ids": vocab_size - 1,
    "masked_lm_weights": float(tf.float32.max),
    "next_sentence_labels": 1,
    "cls_positions": length - 1,
  }
  # Ragged features are not checked, since the run itself wrote them.
  fixed = tf.io.FixedLenFeature
  return {n: h for n, h in highest.items() if isinstance(spec.get(n), fixed)}


def check(
  features: Mapping[str, tf.Tensor], highest: Mapping[str, float]
) -> None:
  """Raises InvalidArgumentError, in the graph, if a value is out of range.

  `input_pipeline.naming_records` then names the record and the value. Without
  this check, a gather under XLA would silently read another row.
  """
  # Few operations, since calling one costs as much as comparing its values. As
  # an unsigned integer, a negative value or NaN exceeds all limits.
  are_outside = []
  for dtype, unsigned in ((tf.int64, tf.uint64), (tf.float32, tf.uint32)):
    names = [name for name in highest if features[name].dtype == dtype]
    if names:
      bits = tf.bitcast(tf.concat([features[n] for n in names], -1), unsigned)
      limits = [
        np.full(features[n].shape[-1], highest[n], dtype.as_numpy_dtype)
        for n in names
      ]
      most = np.concatenate(limits).view(unsigned.as_numpy_dtype)
      are_outside.append(tf.reduce_any(bits > most))
  if are_outside:
    is_outside = functools.reduce(operator.or_, are_outside)
    ranges = ", ".join(f"{n} 0 to {high:.8g}" for n, high in highest.items())
    # One operation. A branch that formats the value would double the cost.
    tf.raw_ops.Assert(
      condition=tf.logical_not(is_outside),
      data=[f"a record holds a value that is out of range; allowed: {ranges}"],
    )


def find_fault(record: bytes, spec: Spec, highest: Mapping[str, float]) -> str:
  """Returns a description of the first fault of a record; "" if it is valid."""
  try:
    features = tf.train.Example.FromString(record).features.feature
  except message.DecodeError:
    return "is not a tf.train.Example"
  for name, feature in spec.items():
    kind = "float_list" if feature.dtype.is_floating else "int64_list"
    stored = (
      features[name].WhichOneof("kind") if name in features else "nothing"
    )
    if stored != kind:
      return f"has {stored} as {name}, not {kind}"
    values = np.array(getattr(features[name], kind).value)
    if len(values) != math.prod(feature.shape):
      return f"has {name} of length {len(values)}, not {feature.shape}"
    high = highest.get(name, np.inf)
    outside = values[~((values >= 0) & (values <= high))]
    if name in highest and outside.size:
      return f"has {name} {outside[0]}; 0 to {high:.8g} is allowed"
  return ""
