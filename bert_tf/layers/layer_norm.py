"""Layer norm over the last axis."""

import keras

from bert_tf.kernels import onednn_layer_norm
from bert_tf.tensor import Tensor


class LayerNorm(keras.layers.LayerNormalization):
  """Keras' layer norm; one operation within `onednn_layer_norm.fused`."""

  def call(self, inputs: Tensor) -> Tensor:
    """Returns a tensor of the shape and dtype of inputs."""
    if onednn_layer_norm.can_compute(inputs):
      return onednn_layer_norm.compute(
        inputs, self.gamma, self.beta, self.epsilon
      )
    return super().call(inputs)
