"""What stands on top of BertModel for a task, and the pure losses.

A loss returns (sum, weight): the mean over whatever the batch was split into
is then the total of the sums over the total of the weights.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_tf import dropout, modeling
from bert_tf.modeling import Tensor

Sums = dict[str, tuple[Tensor, Tensor]]

# What a classifier's outputs mean: one class of several, a number, or a yes
# or no for each label.
PROBLEM_TYPES = ("classification", "regression", "multilabel")

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

  def __init__(self, config: modeling.BertConfig):
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

  def __init__(self, config: modeling.BertConfig):
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

  def __init__(self, config: modeling.BertConfig, num_outputs: int, name: str):
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

  def __init__(self, config: modeling.BertConfig):
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
  ):
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

  def __init__(self, config: modeling.BertConfig):
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
  ):
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


class ClassifierModel(keras.Model):
  """BertModel with a linear layer on the pooled output.

  Its two variables stand at the root, as in the original's checkpoints.

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
  ):
    super().__init__(name="classifier")
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
  ):
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


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
  """Returns -log softmax(logits)[label], in float32.

  Args:
    logits: float [..., C].
    labels: int [...].
  """
  log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
  picked = ops.take_along_axis(log_probs, labels[..., None], axis=-1)
  return -ops.squeeze(picked, axis=-1)


def pretraining_loss(
  outputs: PretrainingOutput, features: Mapping[str, Tensor]
) -> Sums:
  """Returns `masked_lm_loss` and `next_sentence_loss` as (sum, weight).

  Args:
    outputs: of PretrainingModel.
    features: `masked_lm_ids`, int [B, P]; `masked_lm_weights`, float [B, P],
      0 for padding; `next_sentence_labels`, int [B, 1], 0 for a pair that is
      consecutive.
  """
  weights = ops.cast(features["masked_lm_weights"], "float32")
  masked_lm = cross_entropy(outputs.masked_lm_logits, features["masked_lm_ids"])
  labels = ops.reshape(features["next_sentence_labels"], (-1,))
  next_sentence = cross_entropy(outputs.next_sentence_logits, labels)
  return {
    # The original's guard against a batch without a masked word.
    "masked_lm_loss": (
      ops.sum(weights * masked_lm),
      ops.sum(weights) + 1e-5,
    ),
    "next_sentence_loss": (
      ops.sum(next_sentence),
      ops.sum(ops.ones_like(next_sentence)),
    ),
  }


def span_loss(outputs: SpanOutput, features: Mapping[str, Tensor]) -> Sums:
  """Returns the mean of the start's and the end's loss as (sum, weight).

  Args:
    outputs: of SpanModel.
    features: `start_positions` and `end_positions`, int [B].
  """
  start = cross_entropy(outputs.start_logits, features["start_positions"])
  end = cross_entropy(outputs.end_logits, features["end_positions"])
  losses = (start + end) / 2.0
  return {"span_loss": (ops.sum(losses), ops.sum(ops.ones_like(losses)))}


def per_example_loss(
  logits: Tensor, label_ids: Tensor, problem_type: str
) -> Tensor:
  """Returns a classifier's loss of each example, float32 [B].

  Args:
    logits: float [B, C].
    label_ids: int [B] or [B, 1], a class; float [B] or [B, 1], the number, in
      a regression; int [B, C], 1 for a label that applies, in multilabel.
    problem_type: one of PROBLEM_TYPES: cross entropy, squared error, or the
      mean over labels of the binary cross entropy.
  """
  logits = ops.cast(logits, "float32")
  if problem_type == "regression":
    numbers = ops.reshape(ops.cast(label_ids, "float32"), (-1,))
    return ops.square(logits[:, 0] - numbers)
  if problem_type == "multilabel":
    applies = ops.cast(label_ids, "float32")
    # -log sigmoid(x) is softplus(-x), and -log(1 - sigmoid(x)) softplus(x).
    losses = ops.softplus(logits) - applies * logits
    return ops.mean(losses, axis=-1)
  return cross_entropy(logits, ops.reshape(label_ids, (-1,)))


def classifier_loss(
  logits: Tensor, features: Mapping[str, Tensor], problem_type: str
) -> Sums:
  """Returns the loss of the real examples as (sum, weight).

  Args:
    logits: float [B, C], of ClassifierModel.
    features: `label_ids`, see `per_example_loss`; `is_real_example`, int [B]
      or [B, 1], 0 for an example that fills the batch up.
    problem_type: one of PROBLEM_TYPES.
  """
  losses = per_example_loss(logits, features["label_ids"], problem_type)
  weights = _real_examples(features)
  return {"classifier_loss": (ops.sum(losses * weights), ops.sum(weights))}


def classifier_metrics(
  logits: Tensor, features: Mapping[str, Tensor], problem_type: str
) -> Sums:
  """Returns `example_loss` and, but for a regression, `accuracy`.

  In multilabel an example is right when all its labels are.
  """
  weights = _real_examples(features)
  label_ids = features["label_ids"]
  losses = per_example_loss(logits, label_ids, problem_type)
  metrics = {"example_loss": (ops.sum(losses * weights), ops.sum(weights))}
  if problem_type == "regression":
    return metrics
  if problem_type == "multilabel":
    right = ops.equal(logits > 0, label_ids > 0)
    hits = ops.cast(ops.all(right, axis=-1), "float32")
  else:
    hits = _hits(logits, ops.reshape(label_ids, (-1,)))
  metrics["accuracy"] = (ops.sum(hits * weights), ops.sum(weights))
  return metrics


def probabilities(logits: Tensor, problem_type: str) -> Tensor:
  """Returns float32 [B, C]: softmax, sigmoid, or a regression's numbers."""
  logits = ops.cast(logits, "float32")
  if problem_type == "regression":
    return logits
  if problem_type == "multilabel":
    return ops.sigmoid(logits)
  return ops.softmax(logits, axis=-1)


def _real_examples(features: Mapping[str, Tensor]) -> Tensor:
  """Returns float32 [B], 0 for an example that fills the batch up."""
  return ops.reshape(ops.cast(features["is_real_example"], "float32"), (-1,))


class TokenModel(keras.Model):
  """BertModel with a linear layer on every position of the last layer.

  Its two variables stand at the root and are called as ClassifierModel's.

  Args:
    config: sizes.
    num_labels: C, outputs of the layer.
    use_one_hot_embeddings: as for BertModel.
    seed: of the dropout.
  """

  def __init__(
    self,
    config: modeling.BertConfig,
    num_labels: int,
    use_one_hot_embeddings: bool = False,
    seed: int = 0,
  ):
    super().__init__(name="token")
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


def token_loss(logits: Tensor, features: Mapping[str, Tensor]) -> Sums:
  """Returns the cross entropy of the labelled positions as (sum, weight).

  Args:
    logits: float [B, F, C], of TokenModel.
    features: `label_ids`, int [B, F]; `label_mask`, int [B, F], 1 at the
      positions that have a label.
  """
  losses = cross_entropy(logits, features["label_ids"])
  weights = ops.cast(features["label_mask"], "float32")
  return {"token_loss": (ops.sum(losses * weights), ops.sum(weights))}


def token_metrics(logits: Tensor, features: Mapping[str, Tensor]) -> Sums:
  """Returns `token_loss` and `accuracy`; see `token_loss` for the arguments."""
  weights = ops.cast(features["label_mask"], "float32")
  hits = ops.sum(_hits(logits, features["label_ids"]) * weights)
  metrics = token_loss(logits, features)
  return {**metrics, "accuracy": (hits, ops.sum(weights))}


def pretraining_metrics(
  outputs: PretrainingOutput, features: Mapping[str, Tensor]
) -> Sums:
  """Returns losses and accuracies of both heads as (sum, weight).

  Unlike the loss that is trained, the losses here are plain means: of the
  real masked words, and of the pairs.
  """
  weights = ops.cast(features["masked_lm_weights"], "float32")
  labels = ops.reshape(features["next_sentence_labels"], (-1,))
  losses = pretraining_loss(outputs, features)
  masked_lm_hits = _hits(outputs.masked_lm_logits, features["masked_lm_ids"])
  next_sentence_hits = _hits(outputs.next_sentence_logits, labels)
  masked_lm_weight = ops.sum(weights)
  next_sentence_sum, pairs = losses["next_sentence_loss"]
  return {
    "masked_lm_accuracy": (
      ops.sum(masked_lm_hits * weights),
      masked_lm_weight,
    ),
    "masked_lm_loss": (losses["masked_lm_loss"][0], masked_lm_weight),
    "next_sentence_accuracy": (ops.sum(next_sentence_hits), pairs),
    "next_sentence_loss": (next_sentence_sum, pairs),
  }


def _hits(logits: Tensor, labels: Tensor) -> Tensor:
  """Returns float32, 1 where the label has the largest logit."""
  predicted = ops.argmax(logits, axis=-1)
  return ops.cast(
    ops.equal(predicted, ops.cast(labels, predicted.dtype)), "float32"
  )
