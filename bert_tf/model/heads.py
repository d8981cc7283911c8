"""BertModel with a head for each task; other modules read what they declare."""

import contextlib
import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import keras
from absl import logging
from keras import ops

from bert_tf import modeling, task_registry
from bert_tf.model import losses
from bert_tf.model.kernels import masked_lm
from bert_tf.model.layers import dense, dropout
from bert_tf.model.losses import Features, PretrainingSums
from bert_tf.model.pretrained_model import PretrainedModel
from bert_tf.modeling import DType, Tensor

Model = TypeVar("Model", bound="HeadModel")
Outputs = dict[str, Tensor]

# Dropout rate of a classifier's input, whatever the config (run_classifier.py).
CLASSIFIER_DROPOUT = 0.1


@dataclasses.dataclass(frozen=True)
class Head:
  """A head, and its names in checkpoints and transformers."""

  name: str  # The head's name in messages.
  # Shapes of the head's variables by name in a checkpoint: D is hidden_size,
  # V vocab_size and C the number of labels.
  shapes: Mapping[str, tuple[int | str, ...]]
  # Hugging Face's class of models with only this head.
  hugging_face: str


def _linear(scope: str, n: int | str) -> dict[str, tuple[int | str, ...]]:
  """Returns the shapes of a linear layer with n outputs, stored as [n, D]."""
  return {f"{scope}output_weights": (n, "D"), f"{scope}output_bias": (n,)}


_TRANSFORM = "cls/predictions/transform/"
MASKED_LM = Head(
  "masked LM",
  {
    "cls/predictions/output_bias": ("V",),
    f"{_TRANSFORM}dense/kernel": ("D", "D"),
    f"{_TRANSFORM}dense/bias": ("D",),
    f"{_TRANSFORM}LayerNorm/gamma": ("D",),
    f"{_TRANSFORM}LayerNorm/beta": ("D",),
  },
  "BertForMaskedLM",
)
NEXT_SENTENCE = Head(
  "next sentence",
  _linear("cls/seq_relationship/", 2),
  "BertForNextSentencePrediction",
)
SPAN = Head(
  "question answering", _linear("cls/squad/", 2), "BertForQuestionAnswering"
)
TEXT_LABELS = Head(
  "classification", _linear("", "C"), "BertForSequenceClassification"
)
WORD_LABELS = Head(
  "named entity recognition", _linear("", "C"), "BertForTokenClassification"
)
CHOICES = Head(
  "multiple choice", {"choice_weights": (1, "D")}, "BertForMultipleChoice"
)


class MaskedLmHead(modeling.BertLayer):
  """Predicts the word piece at each masked position."""

  scope = "predictions"

  def build(self, input_shape: Any = None) -> None:
    """Makes the transform and the bias, of [V]."""
    size = self.config.hidden_size
    activation = modeling.get_activation(self.config.hidden_act)
    with keras.name_scope("transform"):
      self.dense = self.make_dense(size, size, activation)
      self.layer_norm = self.make_layer_norm()
    self.output_bias = self.add_weight(
      name="output_bias",
      shape=(self.config.vocab_size,),
      initializer="zeros",
      autocast=False,  # The bias and its gradient stay float32.
    )

  def transform(self, hidden: Tensor) -> Tensor:
    """Returns float [rows, D], from which the logits are computed.

    The paper does not mention this layer; the 2018 release has it.
    """
    return self.layer_norm(self.dense(dense.flatten(hidden)))

  def call(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
    """Returns the logits, [B, P, V], as wide as the variables.

    Args:
      hidden: float [B, P, D]. The output at the masked positions.
      word_embeddings: float [V, D]. The output matrix is that of the input, as
        in the original: a word piece is predicted by the similarity to its
        embedding, and the model has V * D fewer parameters (Press and Wolf
        2017, arXiv 1608.05859).
    """
    rows = self.transform(hidden)
    logits = masked_lm.logits(rows, word_embeddings, self.output_bias)
    return ops.cast(dense.restore(logits, hidden), self.variable_dtype)

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
      self.transform(hidden),
      ops.cast(word_embeddings, "float32"),
      ops.cast(self.output_bias, "float32"),
      ops.reshape(features["masked_lm_ids"], (-1,)),
      ops.reshape(ops.cast(features["masked_lm_weights"], "float32"), (-1,)),
      training,
    )


class LinearHead(keras.layers.Layer):
  """A linear layer whose matrix is stored as [outputs, size].

  As in the original, the names of its variables may have no scope. A Head gives
  them, so they are not made in `build`.

  Args:
    head: the names and shapes of the matrix and, if there is one, the bias.
    size: D, the size of a vector.
    num_outputs: C, the number of labels, for a head with labels.
    initializer: that of the matrix; None for that of a fine-tuned task.
    dtype: as in BertModel.
  """

  def __init__(
    self,
    head: Head,
    size: int,
    num_outputs: int = 0,
    initializer: keras.initializers.Initializer | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(name="head", dtype=dtype)
    if initializer is None:
      # Whatever the config (run_classifier.py and run_squad.py of 2018).
      initializer = keras.initializers.TruncatedNormal(stddev=0.02)
    sizes: dict[int | str, int] = {"D": size, "C": num_outputs}
    self.output_bias = None
    for path, shape in head.shapes.items():
      *scopes, name = path.split("/")
      is_matrix = len(shape) == 2
      with contextlib.ExitStack() as stack:
        for scope in scopes:
          stack.enter_context(keras.name_scope(scope))
        variable = keras.Variable(
          initializer if is_matrix else "zeros",
          [int(sizes.get(n, n)) for n in shape],
          self.variable_dtype,
          name=name,
        )
      setattr(self, "output_weights" if is_matrix else "output_bias", variable)
    self.built = True

  def call(self, hidden: Tensor) -> Tensor:
    """Returns [..., outputs] for float [..., size], as wide as the variables.

    In mixed precision, that is float32.
    """
    weights = ops.transpose(self.output_weights)
    outputs = ops.matmul(dense.flatten(hidden), weights)
    if self.output_bias is not None:
      outputs = outputs + self.output_bias
    return ops.cast(dense.restore(outputs, hidden), self.variable_dtype)


class HeadModel(PretrainedModel):
  """BertModel, as `bert`, with the head of a task."""

  heads: ClassVar[tuple[Head, ...]]
  # Whether the head reads one vector for each input, not for each position.
  reads_pooled_output: ClassVar[bool] = True

  def __init__(
    self,
    config: modeling.BertConfig,
    dtype: DType = None,
    num_outputs: int = 0,
  ) -> None:
    """Makes a model of these sizes, with the dtype as in BertModel.

    With num_outputs, its only head is a LinearHead, `task_layer`, whose
    variables come before those of BERT.
    """
    super().__init__(name=self.task, dtype=dtype)
    self.config = config
    bert = modeling.BertModel(config, dtype=self.dtype_policy)
    if num_outputs:
      [head], size = self.heads, config.hidden_size
      self.task_layer = LinearHead(head, size, num_outputs, dtype=dtype)
    self.bert = bert
    self.seed_generator = bert.seed_generator
    self.built = True

  @property
  def unused_variables(self) -> list[keras.Variable]:
    """Trainable variables that the task's loss does not depend on.

    They have no gradient, so training neither changes nor decays them.
    """
    if self.reads_pooled_output:
      return []
    return self.bert.pooler.trainable_variables

  def sequence_output(self, features: Features, training: bool) -> Tensor:
    """Returns what the head reads at each position, float [B, F, D]."""
    return self.bert(features, training=training).sequence_output

  def pooled_output(self, features: Features, training: bool) -> Tensor:
    """Returns what the head reads of each input, float [B, D]."""
    # The last layer is then computed only at [CLS].
    no_positions = features["input_ids"][:, :0]
    output = self.bert(features, training=training, positions=no_positions)
    return output.pooled_output

  @classmethod
  def from_pretrained(
    cls: type[Model],
    folder: str | os.PathLike[str],
    num_labels: int | None = None,
    dtype: DType = None,
    encoder_only: bool = False,
  ) -> Model:
    """Loads a model folder; a head that the folder lacks gets random values.

    Args:
      folder: see BertModel.from_pretrained.
      num_labels: for models with labels; None for that of the folder's head.
      dtype: as in the constructor.
      encoder_only: whether to start a new head even if the folder has one, for
        other labels or another task.

    Raises:
      ValueError: as BertModel.from_pretrained; also if the folder's head has
        another task or other labels, or if num_labels is unknown.
    """
    from bert_tf.checkpoint.model_folder import ModelFolder

    files = ModelFolder.open(os.fspath(folder))
    saved_task = files.saved.task if files.saved else cls.task
    pre_trained = (task_registry.PRETRAINING.name, task_registry.ENCODER.name)
    if saved_task not in (cls.task, *pre_trained) and not encoder_only:
      raise ValueError(
        f"{files.weights} has the head of another task: {saved_task}, not "
        f"{cls.task}; set `encoder_only` to start a new one."
      )
    arguments: dict[str, Any] = {"dtype": dtype}
    if issubclass(cls, _LabelModel):
      [num_saved] = files.shapes.get("output_bias", (None,))
      if encoder_only:
        num_saved = None
      arguments["num_labels"] = num_labels = num_labels or num_saved
      if not num_labels:
        raise ValueError(f"set `num_labels` for the new {cls.task} head.")
      if num_saved not in (None, num_labels):
        raise ValueError(
          f"{files.weights} has a head for {num_saved} labels, not "
          f"{num_labels}; set `encoder_only` to start a new one."
        )
    model = cls(files.config, **arguments)
    names = {name for head in cls.heads for name in head.shapes}
    is_new = encoder_only or not names & set(files.shapes)
    if is_new and not (encoder_only or num_labels):
      logging.warning(
        "%s has no head for %s, so the new one is random until it is trained.",
        files.weights,
        cls.task,
      )
    files.load(model, prefix="bert/" if is_new else "")
    model.set_preprocessor(files)
    return model

  def compute_loss(
    self, x: Any = None, y: Any = None, *rest: Any, **named: Any
  ) -> Tensor:
    """Computes the loss for `fit`; raises ValueError for labels by name."""
    if isinstance(y, Mapping) or isinstance(self.loss, Mapping):
      raise ValueError(
        "give labels and losses in the order of the outputs, not as a dict."
      )
    return super().compute_loss(x, y, *rest, **named)

  @classmethod
  def name_outputs(cls, output: Any, problem_type: str | None) -> Outputs:
    """Returns what a SavedModel returns, by name, for the output of `call`.

    The problem_type is that of the labels, if the model has labels.
    """
    return dict(output._asdict())

  @classmethod
  def missing_variables(cls, names: Collection[str]) -> list[str]:
    """Returns the heads' variable names that a checkpoint's `names` lack."""
    return [n for head in cls.heads for n in head.shapes if n not in names]

  def _logits(self, hidden: Tensor, training: bool) -> Tensor:
    rate, seeds = CLASSIFIER_DROPOUT, self.seed_generator
    hidden = dropout.dropout(hidden, rate, seeds, training)
    return self.task_layer(hidden)


class PretrainingOutput(NamedTuple):
  """The logits of PretrainingModel."""

  masked_lm_logits: Tensor  # float [B, P, V]; without positions, P is F.
  # float [B, 2], or [B, K, 2] for K instances packed in a row (cls_positions).
  next_sentence_logits: Tensor


@keras.saving.register_keras_serializable("bert_tf")
class PretrainingModel(HeadModel):
  """BertModel with the pre-training heads, which guess masked word pieces.

  Its features are those of BertModel and `masked_lm_positions`, int [B, P]
  (Devlin et al. 2019, section 3.1). Without them, the masked LM predicts every
  position, as transformers' classes do.

  Examples:
    >>> model = bert_tf.PretrainingModel.from_pretrained("quickstart")
    >>> features = {"input_ids": [[2, 4, 3]], "masked_lm_positions": [[1]]}
    >>> output = model(features)
    >>> print(output.masked_lm_logits.shape, output.next_sentence_logits.shape)
    (1, 1, 500) (1, 2)
    >>> print(model({"input_ids": [[2, 4, 3]]}).masked_lm_logits.shape)
    (1, 3, 500)
  """

  task = task_registry.PRETRAINING.name
  heads = (MASKED_LM, NEXT_SENTENCE)
  more_inputs = ("masked_lm_positions",)

  def __init__(self, config: modeling.BertConfig, dtype: DType = None) -> None:
    super().__init__(config, dtype)
    policy, size = self.dtype_policy, config.hidden_size
    self.masked_lm_head = MaskedLmHead(config, dtype=policy)
    with keras.name_scope("cls"):
      self.masked_lm_head.build(None)
    values = modeling.initializer(config)
    self.next_sentence_head = LinearHead(
      NEXT_SENTENCE, size, initializer=values, dtype=policy
    )

  def call(
    self, features: Features, training: bool = False
  ) -> PretrainingOutput:
    """Returns the logits of both heads, float [B, P, V] and [B, 2]."""
    positions = features.get("masked_lm_positions")
    output = self.bert(features, training=training, positions=positions)
    words = self.bert.embeddings.word_embeddings
    return PretrainingOutput(
      self.masked_lm_head(output.sequence_output, words),
      self.next_sentence_head(output.pooled_output),
    )

  @classmethod
  def name_outputs(cls, output: Any, problem_type: str | None) -> Outputs:
    """Returns logits and probabilities of both heads."""
    named = {}
    for head, logits in zip(("masked_lm", "next_sentence"), output):
      named[f"{head}_logits"] = logits
      named[f"{head}_probabilities"] = losses.probabilities(logits)
    return named

  def loss_sums(self, features: Features, training: bool) -> PretrainingSums:
    """Returns `losses.pretraining_sums` of `call`, without all logits."""
    positions = features["masked_lm_positions"]
    output = self.bert(features, training=training, positions=positions)
    pooled_logits = self.next_sentence_head(output.pooled_output)
    words = self.bert.embeddings.word_embeddings
    head, hidden = self.masked_lm_head, output.sequence_output
    return PretrainingSums(
      head.sums(hidden, words, features, training),
      losses.next_sentence_sums(pooled_logits, features),
    )


class SpanOutput(NamedTuple):
  """The logits of SpanModel."""

  start_logits: Tensor  # float [B, F]
  end_logits: Tensor  # float [B, F]


@keras.saving.register_keras_serializable("bert_tf")
class SpanModel(HeadModel):
  """BertModel with the head that finds a span of its input, such as an answer.

  See Devlin et al. 2019, section 4.2.

  Examples:
    >>> model = bert_tf.SpanModel.from_pretrained("quickstart")
    >>> output = model({"input_ids": [[2, 171, 3, 182, 3]]})
    >>> print(output.start_logits.shape, output.end_logits.shape)
    (1, 5) (1, 5)
  """

  task = task_registry.SQUAD.name
  heads = (SPAN,)
  reads_pooled_output = False

  def __init__(self, config: modeling.BertConfig, dtype: DType = None) -> None:
    super().__init__(config, dtype)
    size, policy = config.hidden_size, self.dtype_policy
    self.span_head = LinearHead(SPAN, size, dtype=policy)

  def call(self, features: Features, training: bool = False) -> SpanOutput:
    """Returns a start and an end logit for each position, float [B, F]."""
    hidden = self.sequence_output(features, training)
    logits = self.span_head(hidden)  # [B, F, 2]
    return SpanOutput(logits[..., 0], logits[..., 1])


class _LabelModel(HeadModel):
  """BertModel and the variables of a linear layer with C outputs."""

  def __init__(
    self, config: modeling.BertConfig, num_labels: int, dtype: DType = None
  ) -> None:
    """Makes a model with num_labels outputs; see BertModel for the others."""
    super().__init__(config, dtype, num_labels)
    self.num_labels = num_labels

  @classmethod
  def name_outputs(cls, output: Any, problem_type: str | None) -> Outputs:
    """Returns `logits`, and `probabilities` or the `prediction` of a number."""
    probabilities = losses.probabilities(output, problem_type)
    if problem_type in ("regression", "ranking"):
      return {"logits": output, "prediction": probabilities[:, 0]}
    return {"logits": output, "probabilities": probabilities}


@keras.saving.register_keras_serializable("bert_tf")
class ClassifierModel(_LabelModel):
  """BertModel with a linear layer on the pooled output, for texts and pairs.

  See Devlin et al. 2019, section 4.1. For regression it has one output.

  Examples:
    >>> model = bert_tf.ClassifierModel.from_pretrained(
    ...   "quickstart", num_labels=3
    ... )
    >>> print(model({"input_ids": [[2, 171, 3], [2, 182, 3]]}).shape)
    (2, 3)
  """

  task = task_registry.CLASSIFICATION.name
  heads = (TEXT_LABELS,)

  def call(self, features: Features, training: bool = False) -> Tensor:
    """Returns the logits, float [B, C], for BertModel's features."""
    return self._logits(self.pooled_output(features, training), training)


@keras.saving.register_keras_serializable("bert_tf")
class TokenModel(_LabelModel):
  """BertModel with a linear layer on every position, which labels words.

  As in Devlin et al. 2019, section 5.3, without a CRF.

  Examples:
    >>> model = bert_tf.TokenModel.from_pretrained("quickstart", num_labels=5)
    >>> print(model({"input_ids": [[2, 171, 182, 3]]}).shape)
    (1, 4, 5)
  """

  task = task_registry.NER.name
  heads = (WORD_LABELS,)
  reads_pooled_output = False

  def call(self, features: Features, training: bool = False) -> Tensor:
    """Returns the logits, float [B, F, C], for BertModel's features."""
    return self._logits(self.sequence_output(features, training), training)


def _flatten_choices(features: Features) -> dict[str, Tensor]:
  """Returns the model's inputs, int [B*C, F], of features of int [B, C, F]."""
  length = ops.shape(features["input_ids"])[2]
  return {
    name: ops.reshape(features[name], (-1, length))
    for name in ("input_ids", "input_mask", "segment_ids")
    if features.get(name) is not None
  }


@keras.saving.register_keras_serializable("bert_tf")
class MultipleChoiceModel(HeadModel):
  """BertModel that scores each of several choices (Devlin et al. 2019, 4.4).

  The score is the dot product of the pooled output and one vector, which is not
  called `output_weights`, so that the model is not taken for a classifier.

  Examples:
    >>> model = bert_tf.MultipleChoiceModel.from_pretrained("quickstart")
    >>> print(model({"input_ids": [[[2, 171, 3], [2, 182, 3]]]}).shape)
    (1, 2)
  """

  task = task_registry.SWAG.name
  heads = (CHOICES,)
  input_shape_names = ("B", "C", "F")

  def __init__(self, config: modeling.BertConfig, dtype: DType = None) -> None:
    super().__init__(config, dtype, num_outputs=1)

  def call(self, features: Features, training: bool = False) -> Tensor:
    """Returns the scores, float [B, C], of features of int [B, C, F]."""
    num_choices = ops.shape(features["input_ids"])[1]
    pooled_output = self.pooled_output(_flatten_choices(features), training)
    scores = self._logits(pooled_output, training)
    return ops.reshape(scores, (-1, num_choices))  # [B, C]

  @classmethod
  def name_outputs(cls, output: Any, problem_type: str | None) -> Outputs:
    """Returns `logits` and `probabilities`, and the likeliest `choice`."""
    import tensorflow as tf  # Keras' argmax has operations that ONNX lacks.

    return {
      "logits": output,
      "probabilities": losses.probabilities(output),
      "choice": tf.argmax(output, axis=-1, output_type=tf.int32),
    }


class VectorOutput(NamedTuple):
  """The output of VectorModel."""

  sequence_output: Tensor  # float [B, C, F, D]


@keras.saving.register_keras_serializable("bert_tf")
class VectorModel(HeadModel):
  """BertModel as it is trained to compute vectors of texts, without a head.

  An example consists of C texts, such as a pair.
  """

  task = task_registry.ENCODER.name
  heads = ()
  reads_pooled_output = False
  input_shape_names = ("B", "C", "F")

  def call(self, features: Features, training: bool = False) -> VectorOutput:
    """Returns the last layer for features of int [B, C, F]."""
    shape = ops.shape(features["input_ids"])
    hidden = self.sequence_output(_flatten_choices(features), training)
    return VectorOutput(ops.reshape(hidden, (*shape, self.config.hidden_size)))


def pool_vectors(hidden: Tensor, mask: Tensor, pooling: str) -> Tensor:
  """Returns one vector for each sequence, float32 [..., D], of [..., F, D].

  `mask` is int [..., F], 0 at padding; `pooling` is "cls", "mean" or "max".
  """
  hidden = ops.cast(hidden, "float32")
  is_piece = ops.cast(mask, "float32")[..., None]
  if pooling == "cls":
    return hidden[..., 0, :]
  if pooling == "max":
    return ops.max(hidden - (1 - is_piece) * 1e9, axis=-2)
  # A record that only fills up a batch has no word pieces.
  num_pieces = ops.maximum(ops.sum(is_piece, axis=-2), 1)
  return ops.sum(hidden * is_piece, axis=-2) / num_pieces


def list_model_classes(task: str | None = None) -> list[type[HeadModel]]:
  """Returns the models of the tasks, that of `task` first.

  Of several models whose variables have the same names, it returns that of
  `task`, or else of the task that was registered first.
  """
  by_names: dict[frozenset[str], type[HeadModel]] = {}
  specs = sorted(task_registry.TASKS.values(), key=lambda s: s.name != task)
  for model in [task_registry.load(spec.model) for spec in specs if spec.model]:
    names = frozenset(n for head in model.heads for n in head.shapes)
    by_names.setdefault(names, model)
  return list(by_names.values())


def find_heads(
  names: Collection[str], task: str | None = None
) -> tuple[Head, ...]:
  """Returns the heads that have variables with the names of a checkpoint.

  Only the task that the files beside it name tells heads with equal names
  apart; see `list_model_classes`.
  """
  return tuple(
    head
    for model in list_model_classes(task)
    for head in model.heads
    if any(name in head.shapes for name in names)
  )


def find_model(
  heads: Sequence[Head], task: str | None = None
) -> type[HeadModel] | None:
  """Returns the model with exactly the heads that `find_heads` returned."""
  models = list_model_classes(task)
  return next((m for m in models if m.heads == tuple(heads)), None)


def build_model(
  model: type[HeadModel] | None, config: modeling.BertConfig, num_labels: int
) -> keras.Model:
  """Returns a new model of a class; for None, a BertModel.

  Only classes with labels use num_labels.
  """
  if model is None:
    return modeling.BertModel(config)
  if issubclass(model, _LabelModel):
    return model(config, num_labels)
  return model(config)
