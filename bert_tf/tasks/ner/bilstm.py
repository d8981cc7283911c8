"""The BiLSTM that is trained on the word vectors of a frozen BERT."""

from collections.abc import Mapping

import keras
from keras import ops

from bert_tf import dropout
from bert_tf.modeling import Tensor

# "A randomly initialized two-layer 768-dimensional BiLSTM before the
# classification layer" (Devlin et al. 2019, 5.3): 768 in both directions
# together, as we read it.
_NUM_LAYERS = 2
_UNITS = 384

# Of the classification layer's input, as in fine-tuning.
_DROPOUT = 0.1


class BiLstmModel(keras.Model):
  """A BiLSTM and a linear layer on the vectors of words.

  Args:
    num_vectors: L, vectors of each word.
    hidden_size: D, of each vector.
    num_labels: C, outputs of the linear layer.
    is_summed: whether the vectors are added, weighted by the softmax of
      numbers that are learned; or else stand one after the other.
    initializer_range: standard deviation of the linear layer's first values.
    seed: of the dropout.
  """

  def __init__(
    self,
    num_vectors: int,
    hidden_size: int,
    num_labels: int,
    is_summed: bool,
    initializer_range: float = 0.02,
    seed: int = 0,
  ) -> None:
    super().__init__(name="bilstm")
    self.seed_generator = dropout.Seeds(seed)
    self.layer_weights = None
    size = num_vectors * hidden_size
    if is_summed:
      size = hidden_size
      self.layer_weights = keras.Variable(
        keras.initializers.Zeros(), shape=(num_vectors,), name="layer_weights"
      )
    self.bilstms = []
    for i in range(_NUM_LAYERS):
      # cuDNN's would need another program than what XLA compiles.
      lstm = keras.layers.LSTM(
        _UNITS, return_sequences=True, use_cudnn=False, name="lstm"
      )
      bilstm = keras.layers.Bidirectional(lstm, name=f"bilstm_{i}")
      bilstm.build((None, None, size))
      self.bilstms.append(bilstm)
      size = 2 * _UNITS
    self.output_weights = keras.Variable(
      keras.initializers.TruncatedNormal(stddev=initializer_range),
      shape=(num_labels, size),
      name="output_weights",
    )
    self.output_bias = keras.Variable(
      keras.initializers.Zeros(), shape=(num_labels,), name="output_bias"
    )
    self.built = True

  def call(self, batch: Mapping[str, Tensor], training: bool = False) -> Tensor:
    """Returns the logits, float [B, W, C].

    Args:
      batch: `vectors`, float [B, W, L, D]; `label_mask`, int [B, W], 0 where
        a sentence has ended.
      training: whether to drop out.
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
    for bilstm in self.bilstms:
      hidden = bilstm(hidden, mask=mask, training=training)
    hidden = dropout.dropout(hidden, _DROPOUT, self.seed_generator, training)
    weights = ops.transpose(self.output_weights)
    return ops.matmul(hidden, weights) + self.output_bias
