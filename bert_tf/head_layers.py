"""The layers of the heads; `heads` has the models.

The layers' variables have their names in the original's checkpoints.

Shapes: as in `modeling`; V is vocab_size and C the number of outputs.
"""

from typing import Any

import keras
from keras import ops

from bert_tf import bert_layer
from bert_tf.kernels import masked_lm
from bert_tf.layers import activations, dense, serialization
from bert_tf.losses import Features
from bert_tf.tensor import Tensor


def task_initializer() -> keras.initializers.Initializer:
  """The initializer of a fine-tuned task's layer, whatever the config.

  As in run_classifier.py and run_squad.py of the 2018 release.
  """
  return keras.initializers.TruncatedNormal(stddev=0.02)


def make_output_layer(
  num_outputs: int, size: int, dtype: str
) -> tuple[keras.Variable, keras.Variable]:
  """Makes `output_weights`, [num_outputs, size], and `output_bias` of a task.

  As in the original, the names of these two variables have no scope.
  """
  return (
    keras.Variable(
      task_initializer(), (num_outputs, size), dtype, name="output_weights"
    ),
    keras.Variable(
      keras.initializers.Zeros(), (num_outputs,), dtype, name="output_bias"
    ),
  )


@serialization.register
class Transform(bert_layer.BertLayer):
  """Dense layer, activation and layer norm before the masked LM's logits.

  The paper does not mention them; the 2018 release has them
  (`get_masked_lm_output`). Fine-tuning drops them.
  """

  scope = "transform"

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, D], and the layer norm."""
    size = self.config.hidden_size
    activation = activations.get_activation(self.config.hidden_act)
    self.dense = self.make_dense(size, size, activation)
    self.layer_norm = self.make_layer_norm()

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [..., D] for float [..., D]."""
    return self.layer_norm(self.dense(hidden))


@serialization.register
class MaskedLmHead(bert_layer.BertLayer):
  """Predicts the word piece at each masked position."""

  scope = "predictions"

  def build(self, input_shape: Any = None) -> None:
    """Makes the transform and the bias, of [V]."""
    self.transform = self.make_part(Transform)
    self.output_bias = self.add_weight(
      name="output_bias",
      shape=(self.config.vocab_size,),
      initializer="zeros",
      autocast=False,  # The bias and its gradient stay float32.
    )

  def call(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
    """Returns the logits, float [B, P, V].

    Args:
      hidden: float [B, P, D]. The output at the masked positions.
      word_embeddings: float [V, D]. The output matrix is that of the input, as
        in the original: a word piece is predicted by the similarity to its
        embedding, and the model has V * D fewer parameters (Press and Wolf
        2017, arXiv 1608.05859).
    """
    rows = self.transform(dense.flatten(hidden))
    logits = masked_lm.logits(rows, word_embeddings, self.output_bias)
    return dense.restore(logits, hidden)

  def sums(
    self,
    hidden: Tensor,
    word_embeddings: Tensor,
    features: Features,
    training: bool,
  ) -> Tensor:
    """Returns the sums of `losses.pretraining_sums` without all logits.

    With `training`, the gradients are computed together with the sums.
    """
    # Casts, because the value of a variable need not be a tensor.
    return masked_lm.sums(
      self.transform(dense.flatten(hidden)),
      ops.cast(word_embeddings, "float32"),
      ops.cast(self.output_bias, "float32"),
      ops.reshape(features["masked_lm_ids"], (-1,)),
      ops.reshape(ops.cast(features["masked_lm_weights"], "float32"), (-1,)),
      training,
    )


@serialization.register
class LinearHead(bert_layer.BertLayer):
  """A linear layer with two outputs, whose matrix is stored as [2, D].

  Its `name`, such as "seq_relationship", is its scope in checkpoints.
  """

  make_initializer = staticmethod(bert_layer.initializer)

  def build(self, input_shape: Any = None) -> None:
    """Makes the matrix, [2, D], and the bias, [2]."""
    self.output_weights = self.add_weight(
      name="output_weights",
      shape=(2, self.config.hidden_size),
      initializer=self.make_initializer(self.config),
    )
    self.output_bias = self.add_weight(
      name="output_bias", shape=(2,), initializer="zeros"
    )

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [..., 2] for float [..., D]."""
    return linear(hidden, self.output_weights, self.output_bias)


@serialization.register
class SpanHead(LinearHead):
  """The linear layer that scores each position as start and as end."""

  make_initializer = staticmethod(lambda config: task_initializer())


def linear(hidden: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
  """Returns hidden @ weights^T + bias, float [..., C], for float [..., D].

  The weights are [C, D], as checkpoints of the original store them.
  """
  outputs = ops.matmul(dense.flatten(hidden), ops.transpose(weights))
  if bias is not None:
    outputs = outputs + bias
  return dense.restore(outputs, hidden)


class Cls(keras.layers.Layer):
  """The scope `cls` of the original's checkpoints, with heads in it."""

  def __init__(
    self, dtype: bert_layer.DType, **heads: keras.layers.Layer
  ) -> None:
    super().__init__(name="cls", dtype=dtype)
    self._names = tuple(heads)
    for name, head in heads.items():
      setattr(self, name, head)
    self.build()

  def build(self, input_shape: Any = None) -> None:
    """Builds the heads."""
    for name in self._names:
      getattr(self, name).build()
