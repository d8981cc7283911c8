"""A BiLSTM that is trained on the word vectors of a frozen BERT."""

from collections.abc import Mapping

import keras
from keras import ops

from bert_tf import head_layers
from bert_tf.layers import dropout
from bert_tf.modeling import DType, Tensor
from research import bilstm

# "A randomly initialized two-layer 768-dimensional BiLSTM before the
# classification layer" (Devlin et al. 2019, 5.3). We assume that 768 is the sum
# of both directions.
_NUM_LAYERS = 2
_UNITS = 384

# Dropout probability of the classification layer's input, as in fine-tuning.
_DROPOUT = 0.1


class BiLstmModel(keras.Model):
  """A two-layer BiLSTM and a linear layer on the vectors of words.

  Args:
    num_vectors: L, the number of vectors of a word.
    hidden_size: D, the size of a vector.
    num_labels: C, the number of labels.
    is_summed: whether to sum a word's vectors, weighted by the softmax of
      learned numbers. Otherwise they are concatenated.
    dtype: the Keras dtype policy.
  """

  def __init__(
    self,
    num_vectors: int,
    hidden_size: int,
    num_labels: int,
    is_summed: bool,
    dtype: DType = None,
  ) -> None:
    super().__init__(name="bilstm", dtype=dtype)
    self.seed_generator = dropout.Seeds(0)
    self.layer_weights = None
    size = num_vectors * hidden_size
    if is_summed:
      size = hidden_size
      self.layer_weights = keras.Variable(
        keras.initializers.Zeros(),
        shape=(num_vectors,),
        dtype=self.variable_dtype,
        name="layer_weights",
      )
    self.bilstms = []
    for i in range(_NUM_LAYERS):
      layer = bilstm.make(size, _UNITS, f"bilstm_{i}", self.dtype_policy)
      self.bilstms.append(layer)
      size = 2 * _UNITS
    self.output_weights, self.output_bias = head_layers.make_output_layer(
      num_labels, size, self.variable_dtype
    )
    self.built = True

  def call(self, batch: Mapping[str, Tensor], training: bool = False) -> Tensor:
    """Returns the logits, float [B, W, C], of B sentences of up to W words.

    The batch has `vectors`, float [B, W, L, D], and `label_mask`, int [B, W], 0
    for padding.
    """
    vectors = ops.cast(batch["vectors"], self.compute_dtype)
    if self.layer_weights is not None:
      weights = ops.softmax(self.layer_weights)
      hidden = ops.einsum("l,bwld->bwd", weights, vectors)
    else:
      batch_size, width = ops.shape(vectors)[:2]
      size = vectors.shape[2] * vectors.shape[3]
      hidden = ops.reshape(vectors, (batch_size, width, size))
    mask = ops.greater(batch["label_mask"], 0)
    for layer in self.bilstms:
      hidden = layer(hidden, mask=mask, training=training)
    hidden = dropout.dropout(hidden, _DROPOUT, self.seed_generator, training)
    weights = ops.transpose(self.output_weights)
    return ops.matmul(hidden, weights) + self.output_bias
