"""The layers of the heads; `heads` has the models.

Their variables have the names of the original's checkpoints.
"""

from typing import Any

import keras
from keras import ops

from bert_tf import modeling
from bert_tf.kernels import masked_lm
from bert_tf.layers import serialization
from bert_tf.modeling import DType, Tensor


def task_initializer() -> keras.initializers.Initializer:
  """Returns what sets a new task's layer; no config changes its spread."""
  return keras.initializers.TruncatedNormal(stddev=0.02)


@serialization.register
class Transform(modeling.BertLayer):
  """Dense, activation and layer norm before the output words."""

  def __init__(self, config: modeling.BertConfig, dtype: DType = None) -> None:
    super().__init__(config, "transform", dtype=dtype)
    self.activation = modeling.get_activation(config.hidden_act)

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, D], and the layer norm."""
    size = self.config.hidden_size
    self.dense = self.make_dense(size, size)
    self.layer_norm = self.make_layer_norm()

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [B*P, D]."""
    hidden = self.dense(hidden)
    if self.activation:
      hidden = self.activation(hidden)
    return self.layer_norm(hidden)


@serialization.register
class MaskedLmHead(modeling.BertLayer):
  """Predicts the word piece at each masked position."""

  def __init__(self, config: modeling.BertConfig, dtype: DType = None) -> None:
    super().__init__(config, "predictions", dtype=dtype)
    self.transform = Transform(config, self.dtype_policy)

  def build(self, input_shape: Any = None) -> None:
    """Makes the transform and the bias, of [V]."""
    self.transform.build()
    self.output_bias = self.add_weight(
      name="output_bias",
      shape=(self.config.vocab_size,),
      initializer="zeros",
      autocast=False,  # Nor is its gradient rounded.
    )

  def call(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
    """Returns float [B, P, V] for float [B, P, D], at the masked positions.

    The output matrix is the input embedding's, float [V, D].
    """
    rows = ops.reshape(hidden, (-1, hidden.shape[-1]))
    logits = masked_lm.logits(
      self.transform(rows), word_embeddings, self.output_bias
    )
    shape = (-1, ops.shape(hidden)[1], self.config.vocab_size)
    return ops.reshape(logits, shape)


@serialization.register
class LinearHead(modeling.BertLayer):
  """A linear layer with two outputs, whose matrix is stored as [2, D]."""

  def __init__(
    self, config: modeling.BertConfig, name: str, dtype: DType = None
  ) -> None:
    super().__init__(config, name, dtype=dtype)

  def build(self, input_shape: Any = None) -> None:
    """Makes the matrix and the bias."""
    self.output_weights = self.add_weight(
      name="output_weights",
      shape=(2, self.config.hidden_size),
      initializer=self.initializer(),
    )
    self.output_bias = self.add_weight(
      name="output_bias", shape=(2,), initializer="zeros"
    )

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [..., 2] for float [..., D]."""
    weights = ops.transpose(self.output_weights)
    return ops.matmul(hidden, weights) + self.output_bias

  def initializer(self) -> keras.initializers.Initializer:
    """Returns what sets the matrix at first."""
    return modeling.initializer(self.config)


@serialization.register
class SpanHead(LinearHead):
  """The linear layer that scores each position as start and as end."""

  def initializer(self) -> keras.initializers.Initializer:
    """Returns what sets the matrix at first."""
    return task_initializer()


class Cls(keras.layers.Layer):
  """The scope `cls` of the original's checkpoints, with heads in it."""

  def __init__(self, dtype: DType, **heads: keras.layers.Layer) -> None:
    super().__init__(name="cls", dtype=dtype)
    for name, head in heads.items():
      setattr(self, name, head)
    self.build()

  def build(self, input_shape: Any = None) -> None:
    """Builds the heads."""
    for head in self._layers:
      head.build()
