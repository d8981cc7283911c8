"""The base of BERT's layers: sizes, scopes and initial values."""

from collections.abc import Callable
from typing import Any, ClassVar

import keras

from bert_tf.layers import dense, dropout, layer_norm, serialization
from bert_tf.model_config import BertConfig
from bert_tf.tensor import Tensor

# A layer's dtype: a name, a Keras policy or None. Keras has no type for it.
DType = Any


def initializer(config: BertConfig) -> keras.initializers.Initializer:
  """The initializer of all matrices, a truncated normal; zeros for range 0."""
  if not config.initializer_range:
    return keras.initializers.Zeros()
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class BertLayer(serialization.Configured, keras.layers.Layer):
  """A layer whose sizes are those of a BertConfig.

  A layer makes its variables and sub-layers in `build`, in the scope of its
  name. Each variable thereby gets its name in the original's checkpoints.

  Args:
    config: sizes.
    name: the layer's scope in checkpoints; None for the class's `scope`.
    seed_generator: seeds of dropout, shared by a model's layers; None for own.
    dtype: Keras dtype or policy; None for Keras's global policy.
  """

  scope: ClassVar[str]

  def __init__(
    self,
    config: BertConfig,
    name: str | None = None,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(name=name or self.scope, dtype=dtype)
    self.config = config
    self.seed_generator = seed_generator or dropout.Seeds()

  def make_part(
    self,
    layer: type["BertLayer"],
    input_size: int | None = None,
    name: str | None = None,
  ) -> Any:
    """Returns a built layer of the same config, seeds and dtype."""
    part = layer(self.config, name, self.seed_generator, self.dtype_policy)
    part.build((None, None, input_size or self.config.hidden_size))
    return part

  def make_dense(
    self,
    inputs: int,
    units: int,
    activation: Callable[[Tensor], Tensor] | None = None,
    name: str = "dense",
  ) -> dense.Dense:
    """Returns a built dense layer of [inputs, units]."""
    layer = dense.Dense(
      units,
      activation,
      kernel_initializer=initializer(self.config),
      name=name,
      dtype=self.dtype_policy,
    )
    layer.build((None, inputs))
    return layer

  def make_layer_norm(self) -> layer_norm.LayerNorm:
    """Returns a built layer norm of [D]."""
    # The epsilon of tf.contrib.layers.layer_norm, which the original calls and
    # released weights were trained with.
    layer = layer_norm.LayerNorm(
      epsilon=1e-12, name="LayerNorm", dtype=self.dtype_policy
    )
    layer.build((None, self.config.hidden_size))
    return layer

  def drop_out(self, x: Tensor, training: bool) -> Tensor:
    """Applies dropout with hidden_dropout_prob."""
    rate = self.config.hidden_dropout_prob
    return dropout.dropout(x, rate, self.seed_generator, training)
