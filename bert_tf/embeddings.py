"""The input representation of BERT (Devlin et al. 2019, section 3, figure 2).

Shapes: B batch, F positions, D hidden size.
"""

from typing import Any

from keras import ops

from bert_tf import bert_layer, model_inputs
from bert_tf.layers import dropout, serialization
from bert_tf.model_config import BertConfig
from bert_tf.tensor import Tensor


@serialization.register
class Embeddings(bert_layer.BertLayer):
  """The sum of word, segment and position embeddings.

  With `use_one_hot_embeddings`, the word table is multiplied by one-hot rows,
  which is faster on TPUs. See BertLayer for the other arguments.
  """

  def __init__(
    self,
    config: BertConfig,
    seed_generator: dropout.Seeds | None = None,
    use_one_hot_embeddings: bool = False,
    dtype: bert_layer.DType = None,
  ) -> None:
    super().__init__(config, "embeddings", seed_generator, dtype)
    self.use_one_hot_embeddings = use_one_hot_embeddings

  def build(self, input_shape: Any = None) -> None:
    """Makes the word, segment and position tables and the layer norm."""
    config = self.config
    sizes = {
      "word_embeddings": config.vocab_size,
      "token_type_embeddings": config.type_vocab_size,
      "position_embeddings": config.max_position_embeddings,
    }
    for name, size in sizes.items():
      table = self.add_weight(
        name=name,
        shape=(size, config.hidden_size),
        initializer=bert_layer.initializer(config),
        # Rows are cast after they are looked up: casting the whole table is
        # slower and makes its gradient dense.
        autocast=False,
      )
      setattr(self, name, table)
    self.layer_norm = self.make_layer_norm()

  def call(
    self, inputs: model_inputs.ModelInputs, training: bool = False
  ) -> Tensor:
    """Returns the embedding of each position, float [B, F, D]."""
    return self.combine(self.look_up(inputs.input_ids), inputs, training)

  def look_up(self, input_ids: Tensor) -> Tensor:
    """Returns the word embeddings, float [B, F, D]."""
    if not self.use_one_hot_embeddings:
      return ops.take(self.word_embeddings, input_ids, axis=0)
    vocab_size, dtype = self.config.vocab_size, self.compute_dtype
    ids = ops.one_hot(input_ids, vocab_size, dtype=dtype)
    return ops.matmul(ids, ops.cast(self.word_embeddings, dtype))

  def combine(
    self, words: Tensor, inputs: model_inputs.ModelInputs, training: bool
  ) -> Tensor:
    """Adds segment and position embeddings to those of words, [B, F, D].

    Returns their sum after layer norm and dropout, float [B, F, D]. Raises
    ValueError if F exceeds max_position_embeddings.
    """
    config, dtype = self.config, self.compute_dtype
    length = inputs.input_ids.shape[1]
    if length is not None and length > config.max_position_embeddings:
      raise ValueError(
        f"max_seq_length {length} exceeds max_position_embeddings "
        f"{config.max_position_embeddings}."
      )
    # As in the 2018 release, the small segment table is multiplied by one-hot
    # rows. Its gradient is then dense, and clipping has the original's norm.
    segments = ops.matmul(
      ops.one_hot(inputs.segment_ids, config.type_vocab_size, dtype=dtype),
      ops.cast(self.token_type_embeddings, dtype),
    )
    # A slice, as in the original: its gradient is dense, and the sum below
    # fails on every device if the input is longer than the table.
    length = ops.shape(inputs.input_ids)[1]
    positions = ops.cast(self.position_embeddings[:length], dtype)
    if inputs.is_packed:  # Otherwise position_ids are 0 to F - 1.
      positions = ops.take(positions, inputs.position_ids, axis=0)
    output = self.layer_norm(ops.cast(words, dtype) + segments + positions)
    return self.drop_out(output, training)
