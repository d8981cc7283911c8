"""Attention with dropout on the weights, with a gradient that saves memory.

    probs = softmax(query @ key^T / sqrt(H) + bias)      float32 [B, N, F, T]
    output = dropout(probs) @ value                      [B, N, F, H]

Automatic differentiation keeps `probs` before and after dropout, which is most
of the memory of a step on long sequences, and passes over them seven times.
This gradient keeps only `probs`, draws the dropout mask again, and passes over
them four times.

Shapes: B batch, N heads, F query positions, T key positions, H size per head.
"""

import math
from collections.abc import Callable

import tensorflow as tf
from keras import ops

from bert_tf.model.kernels import hashing
from bert_tf.model.tensor import Tensor


def attention_probs(query: Tensor, key: Tensor, bias: Tensor) -> Tensor:
  """The weight of each key for each query, float32 [B, N, F, T].

  Args:
    query: float [B, N, F, H].
    key: float [B, N, T, H].
    bias: float32 [B, 1, T] or [B, F, T]. Added to the scores of all heads.
  """
  scores = tf.matmul(query, key, transpose_b=True)
  scores = ops.cast(scores, "float32") * _scale(query)
  return ops.softmax(scores + ops.expand_dims(bias, 1), axis=-1)


def dropout_attention(
  query: Tensor, key: Tensor, value: Tensor, bias: Tensor, mask: hashing.Mask
) -> Tensor:
  """The context of each query, float [B, N, F, H].

  Values are float [B, N, T, H] and the mask [B, N, F, T]; see `attention_probs`
  for the rest. `bias` is not differentiated.
  """

  @tf.custom_gradient
  def forward(
    query: Tensor, key: Tensor, value: Tensor
  ) -> tuple[Tensor, Callable[..., tuple[Tensor, ...]]]:
    dtype = query.dtype
    probs = attention_probs(query, key, bias)

    def drop_out(is_kept: Tensor) -> Tensor:
      return ops.where(is_kept, ops.cast(probs, dtype), 0.0)

    # Dropout's scale is applied to the output, which is smaller than `probs`.
    output = ops.matmul(drop_out(mask()), value) * mask.scale

    def backward(d_output: Tensor) -> tuple[Tensor, ...]:
      # Softmax backward: d_scores = probs * (d_probs - sum(probs * d_probs)).
      # The sum equals dot(output, d_output), so `probs` are not read for it.
      product = ops.cast(d_output, "float32") * ops.cast(output, "float32")
      dot = ops.sum(product, axis=-1, keepdims=True)
      d_output = d_output * mask.scale
      # Without this dependency, common-subexpression elimination would merge
      # the second mask with the first, and keep it in memory until here.
      with tf.control_dependencies([d_output]):
        is_kept = mask()
        dropped = drop_out(is_kept)
      d_dropped = tf.matmul(d_output, value, transpose_b=True)
      d_probs = ops.cast(ops.where(is_kept, d_dropped, 0.0), "float32")
      d_scores = ops.cast((d_probs - dot) * probs, dtype)
      return (
        ops.matmul(d_scores, key) * _scale(query),
        tf.matmul(d_scores, query, transpose_a=True) * _scale(query),
        tf.matmul(dropped, d_output, transpose_a=True),
      )

    return output, backward

  return forward(query, key, value)


def _scale(query: Tensor) -> float:
  # Dot products of H numbers grow with sqrt(H), which would saturate the
  # softmax (Vaswani et al. 2017, section 3.2.1).
  return 1.0 / math.sqrt(query.shape[-1])
