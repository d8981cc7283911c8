"""What stands on top of BertModel for a task."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_tf import dropout, modeling
from bert_tf.modeling import Tensor

# Of a classifier's input, whatever the config says, as in the original.
_POOLED_DROPOUT = 0.1

# Of a token classifier's input: what a classifier's has.
_TOKEN_DROPOUT = 0.1


class PretrainingOutput(NamedTuple):
  """What PretrainingModel returns.

  Attributes:
    masked_lm_logits: float [B, P, V].
    next_sentence_logits: float [B, 2].
  """

  masked_lm_logits: Tensor
  next_sentence_logits: Tensor


class Transform(keras.layers.Layer):
  """Dense, activation and layer norm before the output words."""

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(name="transform")
    self.config = config
    self.activation = modeling.get_activation(config.hidden_act)

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, D], and the layer norm."""
    size = self.config.hidden_size
    self.dense = modeling.dense(self.config, size, "dense")
    self.dense.build((None, size))
    self.layer_norm = modeling.layer_norm()
    self.layer_norm.build((None, size))

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [B*P, D]."""
    hidden = self.dense(hidden)
    if self.activation:
      hidden = self.activation(hidden)
    return self.layer_norm(hidden)


class MaskedLmHead(keras.layers.Layer):
  """Predicts the word piece at each masked position."""

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(name="predictions")
    self.config = config
    self.transform = Transform(config)

  def build(self, input_shape: Any = None) -> None:
    """Makes the transform and the bias, of [V]."""
    self.transform.build()
    self.output_bias = self.add_weight(
      name="output_bias", shape=(self.config.vocab_size,), initializer="zeros"
    )

  def call(
    self,
    sequence_output: Tensor,
    masked_lm_positions: Tensor,
    word_embeddings: Tensor,
  ) -> Tensor:
    """Returns float [B, P, V] for int [B, P] positions.

    The output matrix is the input embedding's, float [V, D]. Only the masked
    positions are transformed: they are few.
    """
    hidden = gather_positions(sequence_output, masked_lm_positions)
    table = ops.cast(word_embeddings, self.compute_dtype)
    logits = ops.matmul(self.transform(hidden), ops.transpose(table))
    logits = logits + self.output_bias
    shape = (-1, ops.shape(masked_lm_positions)[1], self.config.vocab_size)
    return ops.reshape(logits, shape)


class LinearHead(keras.layers.Layer):
  """A linear layer whose matrix is stored as [outputs, D]."""

  def __init__(
    self, config: modeling.BertConfig, num_outputs: int, name: str
  ) -> None:
    super().__init__(name=name)
    self.config = config
    self.num_outputs = num_outputs

  def build(self, input_shape: Any = None) -> None:
    """Makes the matrix and the bias."""
    self.output_weights = self.add_weight(
      name="output_weights",
      shape=(self.num_outputs, self.config.hidden_size),
      initializer=modeling.initializer(self.config),
    )
    self.output_bias = self.add_weight(
      name="output_bias", shape=(self.num_outputs,), initializer="zeros"
    )

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [rows, outputs] for float [rows, D]."""
    weights = ops.transpose(self.output_weights)
    return ops.matmul(hidden, weights) + self.output_bias


class PretrainingHeads(keras.layers.Layer):
  """The masked-LM and next-sentence heads."""

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(name="cls")
    self.predictions = MaskedLmHead(config)
    self.seq_relationship = LinearHead(config, 2, "seq_relationship")
    self.build()

  def build(self, input_shape: Any = None) -> None:
    """Builds both heads."""
    self.predictions.build()
    self.seq_relationship.build()

  def call(
    self,
    sequence_output: Tensor,
    pooled_output: Tensor,
    masked_lm_positions: Tensor,
    word_embeddings: Tensor,
  ) -> PretrainingOutput:
    """Returns the logits of both heads."""
    masked_lm_logits = self.predictions(
      sequence_output,
      masked_lm_positions=masked_lm_positions,
      word_embeddings=word_embeddings,
    )
    return PretrainingOutput(
      masked_lm_logits, self.seq_relationship(pooled_output)
    )


class PretrainingModel(keras.Model):
  """BertModel with the pre-training heads.

  `call` takes BertModel's features and `masked_lm_positions`, int [B, P].
  """

  def __init__(
    self,
    config: modeling.BertConfig,
    use_one_hot_embeddings: bool = False,
    seed: int = 0,
  ) -> None:
    super().__init__(name="pretraining")
    self.bert = modeling.BertModel(config, use_one_hot_embeddings, seed)
    self.seed_generator = self.bert.seed_generator
    self.cls = PretrainingHeads(config)
    self.built = True

  def call(
    self, features: Mapping[str, Tensor], training: bool = False
  ) -> PretrainingOutput:
    """Returns the logits of both heads."""
    output = self.bert(features, training=training)
    return self.cls(
      output.sequence_output,
      pooled_output=output.pooled_output,
      masked_lm_positions=features["masked_lm_positions"],
      word_embeddings=self.bert.embeddings.word_embeddings,
    )


class SpanOutput(NamedTuple):
  """What SpanModel returns.

  Attributes:
    start_logits: float [B, F].
    end_logits: float [B, F].
  """

  start_logits: Tensor
  end_logits: Tensor


class SpanHeads(keras.layers.Layer):
  """The head of question answering, under the original's `cls/squad`."""

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(name="cls")
    self.squad = LinearHead(config, 2, "squad")
    self.build()

  def build(self, input_shape: Any = None) -> None:
    """Builds the head."""
    self.squad.build()

  def call(self, sequence_output: Tensor) -> SpanOutput:
    """Returns a start and an end logit of every position."""
    rows = ops.reshape(sequence_output, (-1, sequence_output.shape[-1]))
    shape = (-1, ops.shape(sequence_output)[1], 2)
    logits = ops.reshape(self.squad(rows), shape)  # [B, F, 2]
    return SpanOutput(logits[..., 0], logits[..., 1])


class SpanModel(keras.Model):
  """BertModel with the head that finds a span of its input."""

  def __init__(
    self,
    config: modeling.BertConfig,
    use_one_hot_embeddings: bool = False,
    seed: int = 0,
  ) -> None:
    super().__init__(name="span")
    self.bert = modeling.BertModel(config, use_one_hot_embeddings, seed)
    self.seed_generator = self.bert.seed_generator
    self.cls = SpanHeads(config)
    self.built = True

  def call(
    self, features: Mapping[str, Tensor], training: bool = False
  ) -> SpanOutput:
    """Returns the logits for BertModel's features."""
    return self.cls(self.bert(features, training=training).sequence_output)


class _LabelModel(keras.Model):
  """BertModel and a linear layer with an output for each label.

  The layer's two variables stand at the root, as in the original's checkpoints
  of classifiers.

  Args:
    config: sizes.
    num_labels: C, outputs of the layer; 1 for a regression.
    use_one_hot_embeddings: as for BertModel.
    seed: of the dropout.
  """

  def __init__(
    self,
    config: modeling.BertConfig,
    num_labels: int,
    use_one_hot_embeddings: bool = False,
    seed: int = 0,
  ) -> None:
    super().__init__()
    self.num_labels = num_labels
    self.bert = modeling.BertModel(config, use_one_hot_embeddings, seed)
    self.seed_generator = self.bert.seed_generator
    self.output_weights = keras.Variable(
      modeling.initializer(config),
      shape=(num_labels, config.hidden_size),
      name="output_weights",
    )
    self.output_bias = keras.Variable(
      keras.initializers.Zeros(), shape=(num_labels,), name="output_bias"
    )
    self.built = True


class ClassifierModel(_LabelModel):
  """BertModel with a linear layer on the pooled output."""

  def call(
    self, features: Mapping[str, Tensor], training: bool = False
  ) -> Tensor:
    """Returns the logits, float [B, C], for BertModel's features."""
    pooled_output = self.bert(features, training=training).pooled_output
    pooled_output = dropout.dropout(
      pooled_output, _POOLED_DROPOUT, self.seed_generator, training
    )
    weights = ops.transpose(self.output_weights)
    return ops.matmul(pooled_output, weights) + self.output_bias


class MultipleChoiceModel(keras.Model):
  """BertModel with a score of each choice (Devlin et al. 2019, 4.4).

  The score is the dot product of the pooled output and one vector; there is no
  bias, which would add the same to all choices. The vector stands at the root
  as `choice_weights`, [1, D]: another name than the `output_weights` of a
  classifier, so that neither is taken for the other. Losses and metrics are
  those of a classifier whose classes are the choices.

  Args:
    config: sizes.
    use_one_hot_embeddings: as for BertModel.
    seed: of the dropout.
  """

  def __init__(
    self,
    config: modeling.BertConfig,
    use_one_hot_embeddings: bool = False,
    seed: int = 0,
  ) -> None:
    super().__init__(name="multiple_choice")
    self.bert = modeling.BertModel(config, use_one_hot_embeddings, seed)
    self.seed_generator = self.bert.seed_generator
    self.choice_weights = keras.Variable(
      modeling.initializer(config),
      shape=(1, config.hidden_size),
      name="choice_weights",
    )
    self.built = True

  def call(
    self, features: Mapping[str, Tensor], training: bool = False
  ) -> Tensor:
    """Returns the scores, float [B, C].

    Args:
      features: `input_ids`, `input_mask` and `segment_ids` as BertModel has
        them, but int [B, C, F]: an input for each choice.
      training: whether to drop out.
    """
    shape = ops.shape(features["input_ids"])
    inputs = {
      name: ops.reshape(features[name], (-1, shape[2]))  # [B*C, F]
      for name in ("input_ids", "input_mask", "segment_ids")
    }
    pooled_output = self.bert(inputs, training=training).pooled_output
    pooled_output = dropout.dropout(
      pooled_output, _POOLED_DROPOUT, self.seed_generator, training
    )
    scores = ops.matmul(pooled_output, ops.transpose(self.choice_weights))
    return ops.reshape(scores, (-1, shape[1]))  # [B, C]


def gather_positions(sequence: Tensor, positions: Tensor) -> Tensor:
  """Returns float [B*P, D]: the rows of [B, F, D] at int [B, P]."""
  length = ops.shape(sequence)[1]
  starts = ops.arange(ops.shape(positions)[0], dtype=positions.dtype) * length
  rows = ops.reshape(sequence, (-1, sequence.shape[-1]))
  flat_positions = ops.reshape(positions + starts[:, None], (-1,))
  return ops.take(rows, flat_positions, axis=0)


class TokenModel(_LabelModel):
  """BertModel with a linear layer on every position of the last layer."""

  def call(
    self, features: Mapping[str, Tensor], training: bool = False
  ) -> Tensor:
    """Returns the logits, float [B, F, C], for BertModel's features."""
    sequence_output = self.bert(features, training=training).sequence_output
    sequence_output = dropout.dropout(
      sequence_output, _TOKEN_DROPOUT, self.seed_generator, training
    )
    rows = ops.reshape(sequence_output, (-1, sequence_output.shape[-1]))
    logits = ops.matmul(rows, ops.transpose(self.output_weights))
    shape = (-1, ops.shape(sequence_output)[1], self.num_labels)
    return ops.reshape(logits + self.output_bias, shape)  # [B, F, C]
