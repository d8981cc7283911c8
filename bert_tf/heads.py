"""BertModel with a head for each task.

What others need to know of a head is said here alone: how checkpoints and
other libraries name it (`Head`), its task and its results (`HeadModel`).
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from bert_tf import dropout, modeling
from bert_tf.modeling import Tensor

Features = Mapping[str, Tensor]

# Dropout rate of the classifiers' inputs, whatever the config says, as in the
# original.
CLASSIFIER_DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class Head:
  """How checkpoints and other libraries name a head.

  Attributes:
    name: for messages.
    shapes: its variables' names in a checkpoint to their shapes, where D is
      hidden_size, V vocab_size and C the number of labels.
    hugging_face: Hugging Face's class of models with this head alone, and what
      its variables' names begin with there.
    model_garden: the attribute of TF Model Garden's models that holds it; ""
      if they have no such head.
  """

  name: str
  shapes: Mapping[str, tuple[int | str, ...]]
  hugging_face: tuple[str, str]
  model_garden: str = ""


def _linear(scope: str, n: int | str) -> dict[str, tuple[int | str, ...]]:
  """Returns the shapes of a linear layer with n outputs, stored as [n, D]."""
  return {f"{scope}output_weights": (n, "D"), f"{scope}output_bias": (n,)}


MASKED_LM = Head(
  "masked LM",
  {
    "cls/predictions/output_bias": ("V",),
    "cls/predictions/transform/dense/kernel": ("D", "D"),
    "cls/predictions/transform/dense/bias": ("D",),
    "cls/predictions/transform/LayerNorm/gamma": ("D",),
    "cls/predictions/transform/LayerNorm/beta": ("D",),
  },
  ("BertForMaskedLM", "cls.predictions."),
  "masked_lm",
)
NEXT_SENTENCE = Head(
  "next sentence",
  _linear("cls/seq_relationship/", 2),
  ("BertForNextSentencePrediction", "cls.seq_relationship."),
  "classification_heads",
)
SPAN = Head(
  "question answering",
  _linear("cls/squad/", 2),
  ("BertForQuestionAnswering", "qa_outputs."),
  "span_labeling",
)
TEXT_LABELS = Head(
  "classification",
  _linear("", "C"),
  ("BertForSequenceClassification", "classifier."),
  "classifier",
)
WORD_LABELS = Head(
  "named entity recognition",
  _linear("", "C"),
  ("BertForTokenClassification", "classifier."),
  "classifier",
)
CHOICES = Head(
  "multiple choice",
  {"choice_weights": (1, "D")},
  ("BertForMultipleChoice", "classifier."),
)


class Transform(keras.layers.Layer):
  """Dense, activation and layer norm before the output words."""

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(name="transform")
    self.config = config
    self.activation = modeling.get_activation(config.hidden_act)

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, D], and the layer norm."""
    size = self.config.hidden_size
    self.dense = modeling.dense(self.config, size, size)
    self.layer_norm = modeling.layer_norm(self.config)

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
    """Returns float [B, P, V] for int [B, P] positions, a few of all.

    The output matrix is the input embedding's, float [V, D].
    """
    hidden = gather_positions(sequence_output, masked_lm_positions)
    table = ops.cast(word_embeddings, self.compute_dtype)
    logits = ops.matmul(self.transform(hidden), ops.transpose(table))
    logits = logits + self.output_bias
    shape = (-1, ops.shape(masked_lm_positions)[1], self.config.vocab_size)
    return ops.reshape(logits, shape)


class LinearHead(keras.layers.Layer):
  """A linear layer with two outputs, whose matrix is stored as [2, D]."""

  def __init__(self, config: modeling.BertConfig, name: str) -> None:
    super().__init__(name=name)
    self.config = config

  def build(self, input_shape: Any = None) -> None:
    """Makes the matrix and the bias."""
    self.output_weights = self.add_weight(
      name="output_weights",
      shape=(2, self.config.hidden_size),
      initializer=modeling.initializer(self.config),
    )
    self.output_bias = self.add_weight(
      name="output_bias", shape=(2,), initializer="zeros"
    )

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [rows, 2] for float [rows, D]."""
    weights = ops.transpose(self.output_weights)
    return ops.matmul(hidden, weights) + self.output_bias


class _Cls(keras.layers.Layer):
  """The scope `cls` of the original's checkpoints, with heads in it."""

  def __init__(self, **heads: keras.layers.Layer) -> None:
    super().__init__(name="cls")
    for name, head in heads.items():
      setattr(self, name, head)
    self.build()

  def build(self, input_shape: Any = None) -> None:
    """Builds the heads."""
    for head in self._layers:
      head.build()


class HeadModel(keras.Model):
  """BertModel, as `bert`, and what stands on top of it for a task.

  Attributes:
    task: what `run.json` and --task call it.
    heads: its heads.
    outputs: names of what its SavedModel returns for texts.
  """

  task: ClassVar[str]
  heads: ClassVar[tuple[Head, ...]]
  outputs: ClassVar[tuple[str, ...]]

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(name=self.task)
    self.bert = modeling.BertModel(config)
    self.seed_generator = self.bert.seed_generator
    self.built = True

  @classmethod
  def missing_variables(cls, names: Collection[str]) -> list[str]:
    """Returns the heads' variables that are not among those of a checkpoint."""
    return [n for head in cls.heads for n in head.shapes if n not in names]

  def _dropped_out(self, x: Tensor, training: bool) -> Tensor:
    """Returns the input of a classifier."""
    return dropout.dropout(x, CLASSIFIER_DROPOUT, self.seed_generator, training)


class PretrainingOutput(NamedTuple):
  """What PretrainingModel returns."""

  masked_lm_logits: Tensor  # float [B, P, V]
  next_sentence_logits: Tensor  # float [B, 2]


class PretrainingModel(HeadModel):
  """BertModel with the pre-training heads.

  `call` takes BertModel's features and `masked_lm_positions`, int [B, P].
  """

  task = "pretraining"
  heads = (MASKED_LM, NEXT_SENTENCE)
  # The likeliest tokens for each [MASK].
  outputs = ("tokens", "probabilities")

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(config)
    self.cls = _Cls(
      predictions=MaskedLmHead(config),
      seq_relationship=LinearHead(config, "seq_relationship"),
    )

  def call(
    self, features: Features, training: bool = False
  ) -> PretrainingOutput:
    """Returns the logits of both heads."""
    output = self.bert(features, training=training)
    masked_lm_logits = self.cls.predictions(
      output.sequence_output,
      masked_lm_positions=features["masked_lm_positions"],
      word_embeddings=self.bert.embeddings.word_embeddings,
    )
    next_sentence_logits = self.cls.seq_relationship(output.pooled_output)
    return PretrainingOutput(masked_lm_logits, next_sentence_logits)


class SpanOutput(NamedTuple):
  """What SpanModel returns."""

  start_logits: Tensor  # float [B, F]
  end_logits: Tensor  # float [B, F]


class SpanModel(HeadModel):
  """BertModel with the head that finds a span of its input."""

  task = "squad"
  heads = (SPAN,)
  # The best answer, the n best ones, and `null_odds` if it knows questions
  # without an answer.
  outputs = ("answer", "start", "end", "probability", "nbest_text")

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(config)
    self.cls = _Cls(squad=LinearHead(config, "squad"))

  def call(self, features: Features, training: bool = False) -> SpanOutput:
    """Returns a start and an end logit of every position."""
    sequence_output = self.bert(features, training=training).sequence_output
    rows = ops.reshape(sequence_output, (-1, sequence_output.shape[-1]))
    shape = (-1, ops.shape(sequence_output)[1], 2)
    logits = ops.reshape(self.cls.squad(rows), shape)  # [B, F, 2]
    return SpanOutput(logits[..., 0], logits[..., 1])


class _LabelModel(HeadModel):
  """BertModel and a linear layer of C outputs, at the root of the names."""

  def __init__(self, config: modeling.BertConfig, num_labels: int) -> None:
    super().__init__(config)
    self.num_labels = num_labels
    self.output_weights = keras.Variable(
      modeling.initializer(config),
      shape=(num_labels, config.hidden_size),
      name="output_weights",
    )
    self.output_bias = keras.Variable(
      keras.initializers.Zeros(), shape=(num_labels,), name="output_bias"
    )


class ClassifierModel(_LabelModel):
  """BertModel with a linear layer on the pooled output."""

  task = "classification"
  heads = (TEXT_LABELS,)
  # `label` if a text has one, `applies` if it can have several; a regression
  # has `prediction` alone.
  outputs = ("label", "applies", "labels", "probabilities", "prediction")

  def call(self, features: Features, training: bool = False) -> Tensor:
    """Returns the logits, float [B, C], for BertModel's features."""
    pooled_output = self.bert(features, training=training).pooled_output
    pooled_output = self._dropped_out(pooled_output, training)
    weights = ops.transpose(self.output_weights)
    return ops.matmul(pooled_output, weights) + self.output_bias


class TokenModel(_LabelModel):
  """BertModel with a linear layer on every position of the last layer."""

  task = "ner"
  heads = (WORD_LABELS,)
  # Of each word its text, its label, that label's probability, and where it
  # starts and ends.
  outputs = ("words", "labels", "probabilities", "starts", "ends")

  def call(self, features: Features, training: bool = False) -> Tensor:
    """Returns the logits, float [B, F, C], for BertModel's features."""
    sequence_output = self.bert(features, training=training).sequence_output
    sequence_output = self._dropped_out(sequence_output, training)
    rows = ops.reshape(sequence_output, (-1, sequence_output.shape[-1]))
    logits = ops.matmul(rows, ops.transpose(self.output_weights))
    shape = (-1, ops.shape(sequence_output)[1], self.num_labels)
    return ops.reshape(logits + self.output_bias, shape)  # [B, F, C]


class MultipleChoiceModel(HeadModel):
  """BertModel with a score of each choice (Devlin et al. 2019, 4.4).

  The score is the dot product of the pooled output and one vector, without a
  bias, which would add the same to all choices. The vector is not called
  `output_weights`, so that the model is not taken for a classifier; losses and
  metrics are those of a classifier whose classes are the choices.
  """

  task = "swag"
  heads = (CHOICES,)
  # The number of the likeliest choice, and a score of each.
  outputs = ("choice", "probabilities", "logits")

  def __init__(self, config: modeling.BertConfig) -> None:
    super().__init__(config)
    self.choice_weights = keras.Variable(
      modeling.initializer(config),
      shape=(1, config.hidden_size),
      name="choice_weights",
    )

  def call(self, features: Features, training: bool = False) -> Tensor:
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
    pooled_output = self._dropped_out(pooled_output, training)
    scores = ops.matmul(pooled_output, ops.transpose(self.choice_weights))
    return ops.reshape(scores, (-1, shape[1]))  # [B, C]


def gather_positions(sequence: Tensor, positions: Tensor) -> Tensor:
  """Returns float [B*P, D]: the rows of [B, F, D] at int [B, P]."""
  length = ops.shape(sequence)[1]
  starts = ops.arange(ops.shape(positions)[0], dtype=positions.dtype) * length
  rows = ops.reshape(sequence, (-1, sequence.shape[-1]))
  flat_positions = ops.reshape(positions + starts[:, None], (-1,))
  return ops.take(rows, flat_positions, axis=0)


MODELS: tuple[type[HeadModel], ...] = (
  PretrainingModel,
  ClassifierModel,
  TokenModel,
  SpanModel,
  MultipleChoiceModel,
)


def kind_of(
  names: Collection[str], labels_words: bool = False
) -> type[HeadModel] | None:
  """Returns the model for a checkpoint's head, None for BertModel itself.

  Args:
    names: of the checkpoint's variables.
    labels_words: whether `output_weights` gives labels to words. TokenModel's
      variables are called as ClassifierModel's are.

  Raises:
    ValueError: if it has the heads of several.
  """
  other = ClassifierModel if labels_words else TokenModel
  found = [
    m for m in MODELS if m is not other and not m.missing_variables(names)
  ]
  if len(found) > 1:
    tasks = ", ".join(model.task for model in found)
    raise ValueError(f"the checkpoint has heads of several tasks: {tasks}.")
  return found[0] if found else None


def build(
  model: type[HeadModel] | None, config: modeling.BertConfig, num_labels: int
) -> keras.Model:
  """Returns a new model of that class, a BertModel for None.

  Only a ClassifierModel or TokenModel has num_labels.
  """
  if model is None:
    return modeling.BertModel(config)
  if issubclass(model, _LabelModel):
    return model(config, num_labels)
  return model(config)
