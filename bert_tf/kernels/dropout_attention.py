"""Scaled dot-product attention with dropout, and its gradient.

Shapes: B batch, F from (query) positions, T to (key) positions, N heads, H
size per head.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from bert_tf.kernels import backend
from bert_tf.tensor import Tensor


def weights(query: Tensor, key: Tensor, key_scores: Tensor) -> Tensor:
  """Returns the weight of every key for every query, float32 [B, N, F, T].

  Args:
    query: float [B, N, F, H].
    key: float [B, N, T, H].
    key_scores: float32 [B, 1, T] or [B, F, T], added to all heads' scores.
  """
  scores = backend.matmul(query, key, transpose_b=True)
  scores = ops.cast(scores, "float32") * _scale(query)
  return ops.softmax(scores + ops.expand_dims(key_scores, 1), axis=-1)


def dropped_context(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  key_scores: Tensor,
  mask: Any,
) -> Tensor:
  """Returns the sums of values by weights of which dropout zeroes some.

  The gradient that TensorFlow makes keeps the weights before and after dropout,
  which are most of what a step on long texts holds, and passes over them seven
  times. This one keeps those before dropout, and passes over them four times.

  Args:
    query: as `weights` has it, like key and key_scores.
    key: see query.
    value: float [B, N, T, H].
    key_scores: see query; without a gradient.
    mask: of [B, N, F, T].

  Returns:
    Float [B, N, F, H].
  """

  @ops.custom_gradient
  def compute(
    query: Tensor, key: Tensor, value: Tensor
  ) -> tuple[Tensor, Callable[..., Any]]:
    dtype = query.dtype
    probs = weights(query, key, key_scores)

    def kept_weights(is_kept: Tensor) -> Tensor:
      return ops.where(is_kept, ops.cast(probs, dtype), 0.0)

    # Scaled up here, where there are fewer numbers.
    output = ops.matmul(kept_weights(mask()), value) * mask.scale

    def gradient(
      *args: Any, upstream: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
      # One of the two, by the backend of Keras.
      upstream = args[0] if upstream is None else upstream
      # A softmax's gradient takes off the mean of what comes for its weights,
      # by these weights: the product of the output with what comes for it.
      product = ops.cast(upstream, "float32") * ops.cast(output, "float32")
      mean = ops.sum(product, axis=-1, keepdims=True)
      upstream = upstream * mask.scale
      with _after(upstream):
        is_kept = mask()
        kept = kept_weights(is_kept)
      of_kept = backend.matmul(upstream, value, transpose_b=True)
      of_probs = ops.cast(ops.where(is_kept, of_kept, 0.0), "float32")
      of_scores = ops.cast((of_probs - mean) * probs, dtype)
      return (
        ops.matmul(of_scores, key) * _scale(query),
        backend.matmul(of_scores, query, transpose_a=True) * _scale(query),
        backend.matmul(kept, upstream, transpose_a=True),
      )

    return output, gradient

  return compute(query, key, value)


def _scale(query: Tensor) -> float:
  return 1.0 / math.sqrt(query.shape[-1])


def _after(tensor: Tensor) -> contextlib.AbstractContextManager:
  """A scope of operations that wait for a tensor, in TensorFlow's graphs.

  Those that repeat earlier ones would be found to be the same, and what the
  earlier ones made be kept.
  """
  if keras.backend.backend() != "tensorflow":
    return contextlib.nullcontext()
  import tensorflow as tf

  return tf.control_dependencies([tensor])
