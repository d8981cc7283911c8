"""Made-up inputs of a model's functions, to warm it up and as examples."""

import numpy as np
import tensorflow as tf

from bert_tf.inference import loaded_model

# A model that fills masks wants one.
TEXT = "A [MASK] text."
# Of a dimension of any size but the first.
_SIZE = 4


def inputs_of(function: loaded_model.Function) -> dict[str, np.ndarray]:
  """Returns arrays of one row each: texts as bytes, numbers that are 0."""
  return {name: _array(spec) for name, spec in function.inputs.items()}


def _array(spec: tf.TensorSpec) -> np.ndarray:
  sizes = spec.shape.as_list() if spec.shape.rank else [None]
  shape = [size or _SIZE for size in sizes]
  shape[0] = sizes[0] or 1
  if spec.dtype == tf.string:
    return np.full(shape, TEXT.encode(), object)
  return np.zeros(shape, spec.dtype.as_numpy_dtype)
