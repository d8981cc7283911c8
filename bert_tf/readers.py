"""The outputs that a head reads: those of BERT, or of a BiLSTM on top of it.

A head asks its reader for one vector for each position or for each input, and
does not know which layers made them.

Shapes: B batch, F positions, D hidden size.
"""

import keras
from keras import ops

from bert_tf import model_inputs, modeling
from bert_tf.layers import bilstm
from bert_tf.losses import Features
from bert_tf.tensor import Tensor


class BertReader:
  """The outputs of BERT that a head reads."""

  def __init__(self, bert: modeling.BertModel) -> None:
    self._bert = bert

  def sequence_output(self, features: Features, training: bool) -> Tensor:
    """Returns the output at each position, float [B, F, D]."""
    return self._bert(features, training=training).sequence_output

  def summary(self, features: Features, training: bool) -> Tensor:
    """Returns the output that summarises each input, float [B, D]."""
    # The last layer is then computed only at the summary positions.
    no_positions = features["input_ids"][:, :0]
    output = self._bert(features, training=training, positions=no_positions)
    return output.pooled_output

  def unused_variables(self, reads_summary: bool) -> list[keras.Variable]:
    """Returns the variables of BERT that these outputs do not depend on."""
    return [] if reads_summary else self._bert.pooler.trainable_variables


class BiLstmReader(BertReader):
  """The outputs of a BiLSTM on top of BERT, in place of those of BERT."""

  def __init__(
    self, bert: modeling.BertModel, layer: keras.layers.Bidirectional
  ) -> None:
    super().__init__(bert)
    self._layer = layer

  def sequence_output(self, features: Features, training: bool) -> Tensor:
    """Returns the output at each position, float [B, F, D]."""
    hidden = super().sequence_output(features, training)
    input_mask = model_inputs.get_input_mask(features)
    return self._layer(hidden, mask=ops.greater(input_mask, 0))

  def summary(self, features: Features, training: bool) -> Tensor:
    """Returns the last output of each direction, concatenated, float [B, D]."""
    hidden = self.sequence_output(features, training)
    input_mask = model_inputs.get_input_mask(features)
    last_positions = model_inputs.last_positions(input_mask)
    return bilstm.summarise(hidden, last_positions)

  def unused_variables(self, reads_summary: bool) -> list[keras.Variable]:
    """Returns the variables of BERT that these outputs do not depend on."""
    return super().unused_variables(reads_summary=False)
