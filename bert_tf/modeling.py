"""The BERT model (Devlin et al. 2019, arXiv 1810.04805).

A variable's Keras path is its name in the original release's checkpoints: a
layer is named after the original's scope and makes its children in `build()`.

Shapes: B batch, F from (query) positions, T to (key) positions, N heads,
H head size, D hidden size (N * H), I intermediate size, V vocabulary,
P masked positions, C classes or choices.
"""

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from bert_tf import tensor
from bert_tf.kernels import dropout_attention
from bert_tf.layers import (
  attention_mask,
  dropout,
  last_layer,
  layer_norm,
  model_inputs,
  serialization,
)

# The original has these names here.
from bert_tf.layers.activations import gelu, gelu_erf, get_activation
from bert_tf.model_config import BertConfig

__all__ = [
  "Attention",
  "BertConfig",
  "BertLayer",
  "BertModel",
  "BertOutput",
  "DType",
  "Embeddings",
  "Encoder",
  "Intermediate",
  "Pooler",
  "ResidualOutput",
  "SelfAttention",
  "Tensor",
  "TransformerLayer",
  "gelu",
  "gelu_erf",
  "get_activation",
  "initializer",
]

Tensor = tensor.Tensor
# A layer's dtype: a name or a policy of Keras, which has no types, or None.
DType = Any

# Added to the scores of padded keys, as the original does: finite, so that a
# row whose keys are all padding still has a softmax.
_PADDED_KEY_SCORE = -10000.0


class BertOutput(NamedTuple):
  """What BertModel returns, float."""

  # [B, F, D], or [B, P, D] of P positions. The last encoder layer.
  sequence_output: Tensor
  # [B, D], or [B, K, D] with cls_positions. Dense and tanh of the first
  # position of each input, from left to right of its last.
  pooled_output: Tensor
  # num_hidden_layers of [B, F, D], first to last; the last one is
  # sequence_output.
  all_encoder_layers: tuple[Tensor, ...]
  embedding_output: Tensor  # [B, F, D]. After layer norm and dropout.
  # num_hidden_layers of [B, N, F, T] before dropout; () unless requested. Of P
  # positions the last one is [B, N, K + P, T], first the K pooled ones.
  attention_probs: tuple[Tensor, ...]


_are_loaded = contextvars.ContextVar("are_loaded", default=False)


@contextlib.contextmanager
def all_loaded() -> Iterator[None]:
  """A scope of models that get every value from a checkpoint afterwards.

  Their matrices begin with zeros: the random values of BERT-Base take seconds.
  """
  token = _are_loaded.set(True)
  try:
    yield
  finally:
    _are_loaded.reset(token)


def initializer(config: BertConfig) -> keras.initializers.Initializer:
  """Returns the truncated normal that initializes every matrix."""
  if _are_loaded.get():
    return keras.initializers.Zeros()
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class BertLayer(serialization.Configured, keras.layers.Layer):
  """A layer whose sizes a BertConfig gives.

  Args:
    config: sizes.
    name: the layer's scope in checkpoints.
    seed_generator: of dropout; the layers of a model share one. None for the
      layer's own.
    dtype: type or policy of Keras; None for the global one.
  """

  def __init__(
    self,
    config: BertConfig,
    name: str,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(name=name, dtype=dtype)
    self.config = config
    self.seed_generator = seed_generator or dropout.Seeds()

  def make_dense(
    self, inputs: int, units: int, name: str = "dense"
  ) -> keras.layers.Dense:
    """Returns a built dense layer of [inputs, units], without activation."""
    layer = keras.layers.Dense(
      units,
      kernel_initializer=initializer(self.config),
      name=name,
      dtype=self.dtype_policy,
    )
    layer.build((None, inputs))
    return layer

  def make_layer_norm(self) -> layer_norm.LayerNorm:
    """Returns a built layer norm of [D] with the epsilon of TF 1's contrib."""
    layer = layer_norm.LayerNorm(
      epsilon=1e-12, name="LayerNorm", dtype=self.dtype_policy
    )
    layer.build((None, self.config.hidden_size))
    return layer


@serialization.register
class Embeddings(BertLayer):
  """Word, segment and position embeddings, summed, normed, dropped out."""

  def __init__(
    self,
    config: BertConfig,
    seed_generator: dropout.Seeds | None = None,
    use_one_hot_embeddings: bool = False,
    dtype: DType = None,
  ) -> None:
    super().__init__(config, "embeddings", seed_generator, dtype)
    self.use_one_hot_embeddings = use_one_hot_embeddings

  def build(self, input_shape: Any = None) -> None:
    """Makes the three tables and the layer norm."""
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
        initializer=initializer(config),
        # Rows are taken first: a cast of the table would make its gradient
        # dense, and be slower.
        autocast=False,
      )
      setattr(self, name, table)
    self.layer_norm = self.make_layer_norm()

  def call(
    self,
    input_ids: Tensor,
    segment_ids: Tensor,
    starts: Tensor | None = None,
    words: Tensor | None = None,
    training: bool = False,
  ) -> Tensor:
    """Returns float [B, F, D] for int [B, F] ids.

    `starts`, int [B, F], is where the input begins that a position is of;
    `words`, float [B, F, D], the word embeddings, if they are looked up.
    """
    config = self.config
    length = input_ids.shape[1]
    if length is not None and length > config.max_position_embeddings:
      raise ValueError(
        f"max_seq_length {length} exceeds max_position_embeddings "
        f"{config.max_position_embeddings}; lower it or use another "
        "config."
      )
    if words is None:
      words = self._look_up(input_ids)
    words = ops.cast(words, self.compute_dtype)
    # A product with one-hot rows: there are few segments, and this keeps the
    # gradient of the small table dense, as in the original.
    segments = ops.matmul(
      ops.one_hot(
        segment_ids, config.type_vocab_size, dtype=self.compute_dtype
      ),
      ops.cast(self.token_type_embeddings, self.compute_dtype),
    )
    length = ops.shape(input_ids)[1]
    positions = self.position_embeddings[:length]
    positions = ops.cast(positions, self.compute_dtype)
    if starts is None:
      positions = ops.expand_dims(positions, 0)
    else:
      positions = ops.take(positions, ops.arange(length) - starts, axis=0)
    output = self.layer_norm(words + segments + positions)
    return dropout.dropout(
      output, config.hidden_dropout_prob, self.seed_generator, training
    )

  def _look_up(self, input_ids: Tensor) -> Tensor:
    """Returns the word embeddings, float [B, F, D]."""
    if not self.use_one_hot_embeddings:
      return ops.take(self.word_embeddings, input_ids, axis=0)
    vocab_size, dtype = self.config.vocab_size, self.compute_dtype
    ids = ops.one_hot(input_ids, vocab_size, dtype=dtype)
    return ops.matmul(ids, ops.cast(self.word_embeddings, dtype))


@serialization.register
class SelfAttention(BertLayer):
  """Multi-head scaled dot-product attention of a sequence to itself."""

  def __init__(
    self,
    config: BertConfig,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(config, "self", seed_generator, dtype)

  def build(self, input_shape: Any = None) -> None:
    """Makes the three projections."""
    for name in ("query", "key", "value"):
      size = self.config.hidden_size
      setattr(self, name, self.make_dense(size, size, name))

  def call(
    self,
    hidden: Tensor,
    queries: Tensor,
    key_scores: Tensor,
    rows: dropout.Rows | None = None,
    training: bool = False,
  ) -> tuple[Tensor, Tensor]:
    """Attends from every query to every unpadded position.

    Args:
      hidden: float [B*T, D].
      queries: float [B*F, D]. Rows of hidden.
      key_scores: float32 [B, 1, T] or [B, F, T]. 0 for a key to attend to,
        -10000 for a padded one or one of another input.
      rows: which rows of hidden the queries are, [B, F]; None for all.
      training: whether to drop out.

    Returns:
      The context, float [B*F, D], and the weights before dropout, float
      [B, N, F, T].
    """
    config = self.config
    heads = config.num_attention_heads
    num_keys = ops.shape(key_scores)[2]
    num_queries = ops.shape(rows.numbers)[1] if rows else num_keys

    def by_head(projected: Tensor, length: Tensor | int) -> Tensor:
      shape = (-1, length, heads, config.hidden_size // heads)
      return ops.transpose(ops.reshape(projected, shape), (0, 2, 1, 3))

    query = by_head(self.query(queries), num_queries)
    key = by_head(self.key(hidden), num_keys)
    value = by_head(self.value(hidden), num_keys)
    # Keras may have cast them on the way in.
    key_scores = ops.cast(key_scores, "float32")
    probs = dropout_attention.weights(query, key, key_scores)
    probs = ops.cast(probs, self.compute_dtype)
    rate = config.attention_probs_dropout_prob
    if training and rate:
      shape = (ops.shape(query)[0], heads, num_queries, num_keys)
      rows = last_layer.of_heads(rows, heads, num_keys)
      mask = dropout.Mask(shape, rate, self.seed_generator, rows)
      context = dropout_attention.dropped_context(
        query, key, value, key_scores, mask
      )
    else:
      context = ops.matmul(probs, value)
    context = ops.transpose(context, (0, 2, 1, 3))
    return ops.reshape(context, (-1, config.hidden_size)), probs


@serialization.register
class ResidualOutput(BertLayer):
  """Dense, dropout, then layer norm of the sum with the residual."""

  def __init__(
    self,
    config: BertConfig,
    input_size: int,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(config, "output", seed_generator, dtype)
    self.input_size = input_size

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [input_size, D], and the layer norm."""
    self.dense = self.make_dense(self.input_size, self.config.hidden_size)
    self.layer_norm = self.make_layer_norm()

  def call(
    self,
    hidden: Tensor,
    residual: Tensor,
    rows: dropout.Rows | None = None,
    training: bool = False,
  ) -> Tensor:
    """Returns float [B*F, D] for hidden [B*F, input_size].

    `rows`, [B, F], are numbers of these among the rows of all positions.
    """
    if rows:
      rows = dropout.Rows(ops.reshape(rows.numbers, (-1,)), rows.count)
    output = dropout.dropout(
      self.dense(hidden),
      self.config.hidden_dropout_prob,
      self.seed_generator,
      training,
      rows,
    )
    return self.layer_norm(output + residual)


@serialization.register
class Attention(BertLayer):
  """Self-attention and its residual output."""

  def __init__(
    self,
    config: BertConfig,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(config, "attention", seed_generator, dtype)
    seeds, policy = self.seed_generator, self.dtype_policy
    self.self_attention = SelfAttention(config, seeds, policy)
    # Not `self.output`: Keras keeps that name for itself.
    self.residual_output = ResidualOutput(
      config, config.hidden_size, seeds, policy
    )

  def build(self, input_shape: Any = None) -> None:
    """Builds both parts."""
    self.self_attention.build()
    self.residual_output.build()

  def call(
    self,
    hidden: Tensor,
    key_scores: Tensor,
    rows: dropout.Rows | None = None,
    training: bool = False,
  ) -> tuple[Tensor, Tensor]:
    """Returns float [B*F, D] and the weights, float [B, N, F, T].

    `rows`, [B, F], are the rows of hidden, [B*T, D], to compute; None for all.
    """
    queries = hidden
    if rows:
      queries = last_layer.taken(hidden, rows)
      if key_scores.shape[1] != 1:  # They differ by query.
        num_keys = ops.shape(key_scores)[2]
        of_rows = last_layer.taken(
          ops.reshape(key_scores, (-1, num_keys)), rows
        )
        shape = (-1, ops.shape(rows.numbers)[1], num_keys)
        key_scores = ops.reshape(of_rows, shape)
    context, probs = self.self_attention(
      hidden,
      queries=queries,
      key_scores=key_scores,
      rows=rows,
      training=training,
    )
    output = self.residual_output(
      context, residual=queries, rows=rows, training=training
    )
    return output, probs


@serialization.register
class Intermediate(BertLayer):
  """The widening half of the feed-forward network."""

  def __init__(self, config: BertConfig, dtype: DType = None) -> None:
    super().__init__(config, "intermediate", dtype=dtype)
    self.activation = get_activation(config.hidden_act)

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, I]."""
    config = self.config
    self.dense = self.make_dense(config.hidden_size, config.intermediate_size)

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [B*F, I]."""
    widened = self.dense(hidden)
    return self.activation(widened) if self.activation else widened


@serialization.register
class TransformerLayer(BertLayer):
  """One encoder layer: attention, then the feed-forward network."""

  def __init__(
    self,
    config: BertConfig,
    name: str,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(config, name, seed_generator, dtype)
    seeds, policy = self.seed_generator, self.dtype_policy
    self.attention = Attention(config, seeds, policy)
    self.intermediate = Intermediate(config, policy)
    self.residual_output = ResidualOutput(
      config, config.intermediate_size, seeds, policy
    )

  def build(self, input_shape: Any = None) -> None:
    """Builds the three parts."""
    self.attention.build()
    self.intermediate.build()
    self.residual_output.build()

  def call(
    self,
    hidden: Tensor,
    key_scores: Tensor,
    rows: dropout.Rows | None = None,
    training: bool = False,
  ) -> tuple[Tensor, Tensor]:
    """Returns what Attention does."""
    attended, probs = self.attention(
      hidden, key_scores=key_scores, rows=rows, training=training
    )
    output = self.residual_output(
      self.intermediate(attended),
      residual=attended,
      rows=rows,
      training=training,
    )
    return output, probs


@serialization.register
class Encoder(BertLayer):
  """The stack of encoder layers.

  Attributes:
    recompute: whether training uses gradient checkpointing: it keeps only the
      output of each layer and computes the rest again for the gradient. It
      then returns no attention weights.
  """

  def __init__(
    self,
    config: BertConfig,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(config, "encoder", seed_generator, dtype)
    self.recompute = False
    self.transformer_layers = [
      TransformerLayer(
        config, f"layer_{i}", self.seed_generator, self.dtype_policy
      )
      for i in range(config.num_hidden_layers)
    ]

  def build(self, input_shape: Any = None) -> None:
    """Builds every layer."""
    for layer in self.transformer_layers:
      layer.build()

  def call(
    self,
    hidden: Tensor,
    key_scores: Tensor,
    rows: dropout.Rows | None = None,
    training: bool = False,
  ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Returns each layer's output, [B*F, D], and weights, [B, N, F, T].

    Of the last layer only `rows` are computed, if they are given.
    """
    outputs, all_probs = [], []
    for layer in self.transformer_layers:
      is_last = layer is self.transformer_layers[-1]
      of_layer = rows if is_last else None
      if self.recompute and training:
        hidden = self._checkpointed(layer, key_scores, of_layer)(hidden)
      else:
        hidden, probs = layer(
          hidden, key_scores=key_scores, rows=of_layer, training=training
        )
        all_probs.append(probs)
      outputs.append(hidden)
    return tuple(outputs), tuple(all_probs)

  def _checkpointed(
    self,
    layer: TransformerLayer,
    key_scores: Tensor,
    rows: dropout.Rows | None,
  ) -> Callable[[Tensor], Tensor]:
    """Returns a layer's training call with gradient checkpointing."""
    # Both computations have to draw the same dropout.
    num_drawn = self.seed_generator.num_drawn

    def output(hidden: Tensor) -> Tensor:
      self.seed_generator.num_drawn = num_drawn
      return layer(hidden, key_scores=key_scores, rows=rows, training=True)[0]

    return keras.remat(output)


@serialization.register
class Pooler(BertLayer):
  """Dense and tanh of the position that speaks for an input."""

  def __init__(self, config: BertConfig, dtype: DType = None) -> None:
    super().__init__(config, "pooler", dtype=dtype)

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, D]."""
    size = self.config.hidden_size
    self.dense = self.make_dense(size, size)

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [..., D] of its output in the last layer, [..., D]."""
    return ops.tanh(self.dense(hidden))


@serialization.register
class BertModel(model_inputs.FeaturesModel):
  """The encoder of BERT.

  Args:
    config: sizes.
    use_one_hot_embeddings: look word pieces up by a matrix product instead
      of a gather; faster on TPUs, same result.
    dtype: type or policy of Keras, such as "mixed_bfloat16"; None for the
      global one.

  Raises:
    ValueError: as `BertConfig.check_sizes`.
  """

  def __init__(
    self,
    config: BertConfig,
    use_one_hot_embeddings: bool = False,
    dtype: DType = None,
  ) -> None:
    super().__init__(name="bert", dtype=dtype)
    config.check_sizes()
    self.config = config
    self.use_one_hot_embeddings = use_one_hot_embeddings
    self.seed_generator = dropout.Seeds()
    seeds, policy = self.seed_generator, self.dtype_policy
    self.embeddings = Embeddings(config, seeds, use_one_hot_embeddings, policy)
    self.encoder = Encoder(config, seeds, policy)
    self.pooler = Pooler(config, policy)
    self.build()

  @classmethod
  def from_pretrained(
    cls, folder: str | os.PathLike[str], dtype: DType = None
  ) -> "BertModel":
    """Returns the encoder of a model's folder; needs TensorFlow to read it.

    Args:
      folder: as `model_folder.find` takes it: a released one, one of a run, a
        conversion, a SavedModel or one of Hugging Face.
      dtype: as in the constructor.

    Raises:
      ValueError: if there is no model, or not just one, that can be read.
    """
    from bert_tf import model_folder

    found = model_folder.find(os.fspath(folder))
    with all_loaded():
      model = cls(found.bert_config, dtype=dtype)
    model_folder.load(found, model)
    return model

  def build(self, input_shape: Any = None) -> None:
    """Makes every variable; the config knows all sizes."""
    if self.built:  # Keras builds what it loads once more.
      return
    self.embeddings.build()
    self.encoder.build()
    self.pooler.build()

  def call(
    self,
    features: Mapping[str, Tensor],
    training: bool = False,
    return_attention_probs: bool = False,
    positions: Tensor | None = None,
    word_embeddings: Tensor | None = None,
  ) -> BertOutput:
    """Encodes a batch.

    Args:
      features: tensors, arrays or lists by name: `input_ids`, int [B, F],
        word-piece ids, 0 is [PAD]; `input_mask`, int [B, F], 1 for a real
        position, all 1 if missing; `segment_ids`, int [B, F], 0 or 1, all 0 if
        missing; `cls_positions`, int [B, K], for rows that hold up to K
        inputs: where each begins, ascending, the first being 0, and 0 for no
        input. Other keys are ignored.
      training: whether to drop out.
      return_attention_probs: whether to return the attention weights.
      positions: int [B, P]. Where the output of the last layer is needed; it is
        computed there and for pooled_output alone. P may be 0. None for all.
      word_embeddings: float [B, F, D]. Those of input_ids, if they are looked
        up already.

    Raises:
      ValueError: if F exceeds max_position_embeddings, or for features that
        `model_inputs.checked` refuses.
    """
    input_ids = features["input_ids"]
    input_mask = features.get("input_mask")
    if input_mask is None:
      input_mask = ops.ones_like(input_ids)
    segment_ids = features.get("segment_ids")
    if segment_ids is None:
      segment_ids = ops.zeros_like(input_ids)

    length = ops.shape(input_ids)[1]
    cls_positions = features.get("cls_positions")
    starts = None
    if cls_positions is not None:
      starts = attention_mask.starts(cls_positions, length)
    direction = self.config.attention_direction
    is_key = attention_mask.keys(input_mask, starts, direction)
    embedding_output = self.embeddings(
      input_ids,
      segment_ids=segment_ids,
      starts=starts,
      words=word_embeddings,
      training=training,
    )
    at = cls_positions  # Where the position is that sees all of its input.
    if direction == attention_mask.LEFT_TO_RIGHT:
      at = attention_mask.last_positions(input_mask, starts, cls_positions)
    last = last_layer.LastLayer(input_ids, at, positions)
    outputs, probs = self.encoder(
      # Matrices: a product of rank 3 by rank 2 is slower, and its gradient is
      # computed per example before it is summed.
      ops.reshape(embedding_output, (-1, self.config.hidden_size)),
      key_scores=(1.0 - is_key) * _PADDED_KEY_SCORE,
      rows=last.rows,
      training=training,
    )
    shape = (-1, length, self.config.hidden_size)
    layers = [ops.reshape(output, shape) for output in outputs[:-1]]
    pooled, sequence_output = last.outputs(outputs[-1])
    pooled = pooled[:, 0] if cls_positions is None else pooled
    return BertOutput(
      sequence_output=sequence_output,
      pooled_output=self.pooler(pooled),
      all_encoder_layers=(*layers, sequence_output),
      embedding_output=embedding_output,
      attention_probs=probs if return_attention_probs else (),
    )
