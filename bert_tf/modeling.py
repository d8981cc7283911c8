"""The BERT model (Devlin et al. 2019, arXiv 1810.04805, section 3).

The encoder is that of the Transformer (Vaswani et al. 2017). It is
bidirectional: every position attends to every other. `AttentionInputs.bias`
restricts this for padding, for rows that hold several inputs, and for
unidirectional models.

Shapes: B batch, F from (query) positions, T to (key) positions, N attention
heads (A in the paper), H head size, D hidden size (N * H; H in the paper), I
intermediate size (4 D in the paper), P requested positions, K independent
inputs packed into a row (1 unless packed; not the paper's pair of sentences).

A variable's Keras path is its name in the original release's checkpoints, such
as bert/encoder/layer_0/attention/self/query/kernel: a layer is named after its
`scope` and makes its parts in `build`.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import keras
import tensorflow as tf
from keras import ops

from bert_tf import names
from bert_tf.model import model_inputs
from bert_tf.model.kernels import dropout_attention, fused_attention
from bert_tf.model.layers import dense, dropout, layer_norm, lora

# `X as X` exports names that the original's modeling.py has.
from bert_tf.model.layers.activations import gelu as gelu
from bert_tf.model.layers.activations import gelu_erf as gelu_erf
from bert_tf.model.layers.activations import get_activation as get_activation
from bert_tf.model.model_config import BertConfig as BertConfig
from bert_tf.model.model_inputs import AttentionInputs, ModelInputs
from bert_tf.model.pretrained_model import PretrainedModel
from bert_tf.model.tensor import Tensor as Tensor

# A layer's dtype: a name, a Keras policy or None. Keras has no type for it.
DType = Any

if not TYPE_CHECKING:  # Type checkers would take every name to exist.

  def __getattr__(name: str) -> NoReturn:
    """Says where the names of the original's modeling.py went."""
    raise AttributeError(f"{__name__} has no {name!r}. {names.OLD_NAMES}")


def initializer(config: BertConfig) -> keras.initializers.Initializer:
  """The initializer of all matrices, a truncated normal; zeros for range 0."""
  if not config.initializer_range:
    return keras.initializers.Zeros()
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class BertLayer(keras.layers.Layer):
  """A layer whose sizes are those of a BertConfig.

  Args:
    config: sizes.
    name: the layer's scope in checkpoints; None for the class's `scope`.
    seed_generator: seeds of dropout, shared by a model; None for new ones.
    dtype: Keras dtype or policy; None for Keras's global policy.
  """

  scope: ClassVar[str]

  def __init__(
    self,
    config: BertConfig,
    name: str | None = None,
    seed_generator: dropout.Seeds | None = None,
    dtype: DType = None,
  ) -> None:
    super().__init__(name=name or self.scope, dtype=dtype)
    self.config = config
    self.seed_generator = seed_generator or dropout.Seeds()

  def make_part(
    self,
    layer: type["BertLayer"],
    input_size: int | None = None,
    name: str | None = None,
  ) -> Any:
    """Returns a built layer of the same config, seeds and dtype."""
    part = layer(self.config, name, self.seed_generator, self.dtype_policy)
    part.build((None, None, input_size or self.config.hidden_size))
    return part

  def make_dense(
    self,
    inputs: int,
    units: int,
    activation: Callable[[Tensor], Tensor] | None = None,
    name: str = "dense",
  ) -> dense.Dense:
    """Returns a built dense layer of [inputs, units]."""
    policy, matrix = self.dtype_policy, initializer(self.config)
    layer = dense.Dense(
      units, activation, kernel_initializer=matrix, name=name, dtype=policy
    )
    layer.build((None, inputs))
    return layer

  def make_layer_norm(self) -> layer_norm.LayerNorm:
    """Returns a built layer norm of [D]."""
    eps, policy = self.config.layer_norm_eps, self.dtype_policy
    layer = layer_norm.LayerNorm(epsilon=eps, name="LayerNorm", dtype=policy)
    layer.build((None, self.config.hidden_size))
    return layer

  def drop_out(self, x: Tensor, training: bool) -> Tensor:
    """Applies dropout with hidden_dropout_prob."""
    rate = self.config.hidden_dropout_prob
    return dropout.dropout(x, rate, self.seed_generator, training)


class BertOutput(NamedTuple):
  """The outputs of BertModel, float."""

  # [B, F, D], or [B, P, D] if positions are requested. The last encoder layer.
  sequence_output: Tensor
  # [B, D], or [B, K, D] for packed sequences. See Pooler.
  pooled_output: Tensor
  # num_hidden_layers (L in the paper) of [B, F, D], first to last; the last is
  # sequence_output.
  all_encoder_layers: tuple[Tensor, ...]
  embedding_output: Tensor  # [B, F, D]. After layer norm and dropout.
  # num_hidden_layers of [B, N, F, T], before dropout; () unless requested. With
  # P requested positions the last is [B, N, K + P, T], [CLS] positions first.
  attention_probs: tuple[Tensor, ...]


class Embeddings(BertLayer):
  """The sum of word, segment and position embeddings (section 3, figure 2).

  With `use_one_hot_embeddings`, the word table is multiplied by one-hot rows,
  which is faster on TPUs.
  """

  scope = "embeddings"
  use_one_hot_embeddings = False

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
        initializer=initializer(config),
        # Rows are cast after they are looked up: casting the whole table is
        # slower and makes its gradient dense.
        autocast=False,
      )
      setattr(self, name, table)
    self.layer_norm = self.make_layer_norm()

  def call(self, inputs: ModelInputs, training: bool = False) -> Tensor:
    """Sums the embeddings of word, segment and position, float [B, F, D].

    Raises ValueError if F exceeds max_position_embeddings.
    """
    config, dtype = self.config, self.compute_dtype
    length, limit = inputs.input_ids.shape[1], config.max_position_embeddings
    if length is not None and length > limit:
      raise ValueError(
        f"max_seq_length {length} exceeds max_position_embeddings {limit}."
      )
    if self.use_one_hot_embeddings:
      ids = ops.one_hot(inputs.input_ids, config.vocab_size, dtype=dtype)
      words = ops.matmul(ids, ops.cast(self.word_embeddings, dtype))
    else:
      words = tf.gather(self.word_embeddings, inputs.input_ids)
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


class SelfAttention(BertLayer):
  """Attention of N heads: softmax(query @ key^T / sqrt(H) + bias) @ value."""

  scope = "self"

  def build(self, input_shape: Any = None) -> None:
    """Makes the three projections."""
    size, num_heads = self.config.hidden_size, self.config.num_attention_heads
    self.head_sizes = num_heads, size // num_heads
    self.query, self.key, self.value = (
      self.make_dense(size, size, name=name)
      for name in ("query", "key", "value")
    )

  def call(
    self, hidden: Tensor, inputs: AttentionInputs, training: bool = False
  ) -> tuple[Tensor, Tensor]:
    """Attends from each query to all positions of hidden, float [B, T, D].

    Returns the context, float [B, F, D], and the attention probabilities before
    dropout, float [B, N, F, T].
    """
    # Keras may have cast the bias to a type of 16 bits.
    bias = ops.cast(inputs.bias, "float32")
    qkv_shape = (*hidden.shape[:2], 3, *self.head_sizes)
    is_fused = inputs.queries is None and fused_attention.can_compute(
      qkv_shape, self.compute_dtype, bias
    )
    if is_fused:
      qkv = ops.reshape(self._project(hidden), qkv_shape)
      query, key, value = (
        ops.transpose(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3)
      )
    else:
      queries = hidden if inputs.queries is None else inputs.queries
      query = self._split_heads(self.query(queries))
      key = self._split_heads(self.key(hidden))
      value = self._split_heads(self.value(hidden))
    probs = dropout_attention.attention_probs(query, key, bias)
    probs = ops.cast(probs, self.compute_dtype)
    rate, mask = self.config.attention_probs_dropout_prob, None
    if training and rate:
      shape = (*ops.shape(query)[:3], ops.shape(key)[2])
      mask = self.seed_generator.draw_mask(shape, rate)
    if is_fused:
      context = fused_attention.attention(qkv, bias, mask)
      return ops.reshape(context, ops.shape(hidden)), probs
    if mask:
      # dropout(probs) @ value with a gradient that keeps fewer tensors.
      attend = dropout_attention.dropout_attention
      context = attend(query, key, value, bias, mask)
    else:
      context = ops.matmul(probs, value)
    context = ops.transpose(context, (0, 2, 1, 3))  # [B, F, N, H]
    shape = (-1, ops.shape(context)[1], self.config.hidden_size)
    return ops.reshape(context, shape), probs

  def _project(self, hidden: Tensor) -> Tensor:
    """Returns queries, keys and values by one product, [B * T, 3 * D]."""
    parts = (self.query, self.key, self.value)
    rows = dense.flatten(hidden)
    if any(part.lora_enabled for part in parts):
      return ops.concatenate([part(rows) for part in parts], axis=-1)
    kernel = ops.concatenate([part.kernel for part in parts], axis=1)
    bias = ops.concatenate([part.bias for part in parts], axis=0)
    kernel, bias = (ops.cast(x, self.compute_dtype) for x in (kernel, bias))
    return ops.matmul(rows, kernel) + bias

  def _split_heads(self, projected: Tensor) -> Tensor:
    """Returns float [B, N, F, H] for float [B, F, D]."""
    shape = (-1, ops.shape(projected)[1], *self.head_sizes)
    return ops.transpose(ops.reshape(projected, shape), (0, 2, 1, 3))


class ResidualOutput(BertLayer):
  """The end of a sub-layer: LayerNorm(residual + dropout(dense(hidden)))."""

  scope = "output"

  def build(self, input_shape: tuple[int, ...]) -> None:
    """Makes the dense layer, of [input_shape[-1], D], and the layer norm."""
    self.dense = self.make_dense(input_shape[-1], self.config.hidden_size)
    self.layer_norm = self.make_layer_norm()

  def call(
    self, hidden: Tensor, residual: Tensor, training: bool = False
  ) -> Tensor:
    """Returns float [B, F, D] for hidden [B, F, input_size]."""
    # On [B*F, D], so that TensorFlow can fuse the sums with the product.
    output = self.drop_out(self.dense(dense.flatten(hidden)), training)
    output = self.layer_norm(output + dense.flatten(residual))
    return dense.restore(output, residual)


class TransformerLayer(BertLayer):
  """One encoder layer: attention, then the feed-forward network."""

  def build(self, input_shape: Any = None) -> None:
    """Makes both sub-layers, in the scopes of the original."""
    config = self.config
    with keras.name_scope("attention"):
      self.self_attention = self.make_part(SelfAttention)
      self.attention_output = self.make_part(ResidualOutput)
    with keras.name_scope("intermediate"):
      # BERT uses GELU rather than the Transformer's ReLU (appendix A.2).
      size, activation = config.hidden_size, get_activation(config.hidden_act)
      inner_size = config.intermediate_size
      self.intermediate = self.make_dense(size, inner_size, activation)
    self.residual_output = self.make_part(ResidualOutput, inner_size)

  def call(
    self, hidden: Tensor, inputs: AttentionInputs, training: bool = False
  ) -> tuple[Tensor, Tensor]:
    """Returns float [B, F, D] and the probabilities; see SelfAttention.call."""
    context, probs = self.self_attention(hidden, inputs, training=training)
    residual = hidden if inputs.queries is None else inputs.queries
    attended = self.attention_output(context, residual, training=training)
    widened = self.intermediate(attended)
    return self.residual_output(widened, attended, training=training), probs


class Encoder(BertLayer):
  """The stack of encoder layers.

  With `recompute`, training uses gradient checkpointing: each layer keeps only
  its output and computes the rest again for the gradient. The encoder then
  returns no attention probabilities.
  """

  scope = "encoder"
  recompute = False

  def build(self, input_shape: Any = None) -> None:
    """Makes the layers."""
    self.transformer_layers = [
      self.make_part(TransformerLayer, name=f"layer_{i}")
      for i in range(self.config.num_hidden_layers)
    ]

  def call(
    self,
    hidden: Tensor,
    inputs: AttentionInputs,
    output_positions: Tensor | None = None,
    training: bool = False,
  ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Returns the output and the attention probabilities of each layer.

    Args:
      hidden: float [B, F, D].
      inputs: what each layer takes besides, for all positions.
      output_positions: int [B, K + P]. The positions at which the last layer
        is computed; None for all.
      training: whether dropout is on.
    """
    outputs, all_probs = [], []
    for layer in self.transformer_layers:
      if output_positions is not None and layer is self.transformer_layers[-1]:
        inputs = inputs.select(hidden, output_positions)
      if self.recompute and training:
        hidden = self._recompute(layer, hidden, inputs)
      else:
        hidden, probs = layer(hidden, inputs, training=training)
        all_probs.append(probs)
      outputs.append(hidden)
    return tuple(outputs), tuple(all_probs)

  def _recompute(
    self, layer: TransformerLayer, hidden: Tensor, inputs: AttentionInputs
  ) -> Tensor:
    # A dropout mask depends on the count of masks drawn before. The backward
    # pass sets the count back, so it draws the masks of the forward pass.
    num_drawn = self.seed_generator.num_drawn

    def call_layer(hidden: Tensor, *queries: Tensor) -> Tensor:
      self.seed_generator.num_drawn = num_drawn
      selected = inputs._replace(queries=queries[0]) if queries else inputs
      return layer(hidden, selected, training=True)[0]

    queries = () if inputs.queries is None else (inputs.queries,)
    return keras.remat(call_layer)(hidden, *queries)


class Pooler(BertLayer):
  """Dense and tanh on C, the last layer's output at an input's [CLS].

  The next-sentence task trains it (section 3.1), and classifiers read it
  (section 4.1). The paper mentions neither the dense layer nor the tanh.
  """

  scope = "pooler"

  def build(self, input_shape: Any = None) -> None:
    """Makes the dense layer, of [D, D]."""
    size = self.config.hidden_size
    self.dense = self.make_dense(size, size)

  def call(self, hidden: Tensor) -> Tensor:
    """Returns float [..., D] for float [..., D]."""
    return ops.tanh(self.dense(hidden))


@keras.saving.register_keras_serializable("bert_tf")
class BertModel(PretrainedModel):
  """The encoder of BERT, a Keras model from word-piece ids to vectors.

  Args:
    config: the sizes, whose defaults are those of BERT-Base.
    use_one_hot_embeddings: whether to look up words by a matmul, which is
      faster on TPUs and gives the same result.
    dtype: a type or policy of Keras, such as "mixed_bfloat16", or None for the
      global one.

  Examples:
    >>> model = bert_tf.BertModel.from_pretrained("quickstart")
    >>> output = model({"input_ids": [[2, 171, 3, 0]]})
    >>> print(output.sequence_output.shape, output.pooled_output.shape)
    (1, 4, 128) (1, 128)

    It is trained, saved and loaded as any Keras model:

    >>> import keras
    >>> model.save("bert.keras")
    >>> model = keras.models.load_model("bert.keras")
  """

  def __init__(
    self,
    config: BertConfig,
    use_one_hot_embeddings: bool = False,
    dtype: DType = None,
    **of_2018: NoReturn,
  ) -> None:
    if of_2018:  # Such as is_training and input_ids.
      given = ", ".join(of_2018)
      raise TypeError(f"BertModel takes no {given}. {names.OLD_NAMES}")
    super().__init__(name="bert", dtype=dtype)
    config.check_sizes()
    self.config = config
    self.use_one_hot_embeddings = use_one_hot_embeddings
    self.seed_generator = dropout.Seeds()
    seeds, policy = self.seed_generator, self.dtype_policy
    self.embeddings = Embeddings(config, seed_generator=seeds, dtype=policy)
    self.embeddings.use_one_hot_embeddings = use_one_hot_embeddings
    self.encoder = Encoder(config, seed_generator=seeds, dtype=policy)
    self.pooler = Pooler(config, dtype=policy)
    # The config knows all sizes.
    with keras.name_scope("bert"):
      for layer in (self.embeddings, self.encoder, self.pooler):
        layer.build()
    self.built = True

  @classmethod
  def from_pretrained(
    cls, folder: str | os.PathLike[str], dtype: DType = None
  ) -> "BertModel":
    """Loads the encoder of a model folder, which needs TensorFlow.

    Args:
      folder: a released model, a run, a conversion, a SavedModel or a model of
        Hugging Face, see `ModelFolder.open`.
      dtype: as in the constructor.
    """
    from bert_tf.checkpoint.model_folder import ModelFolder

    files = ModelFolder.open(os.fspath(folder))
    # Loading overwrites every variable, so none needs a random value.
    model = cls(files.config.without_random_values(), dtype=dtype)
    model.config = files.config
    files.load(model)
    model.set_preprocessor(files)
    return model

  def enable_lora(self, rank: int, lora_alpha: float | None = None) -> None:
    """Freezes BERT and adds low-rank updates to attention, as in Keras' Dense.

    Args:
      rank: number of columns of the updates' first factor.
      lora_alpha: numerator of the updates' factor lora_alpha / rank; None for a
        factor of 1.
    """
    lora.enable(self, rank, lora_alpha)

  def call(
    self,
    features: Mapping[str, Tensor],
    training: bool = False,
    return_attention_probs: bool = False,
    positions: Tensor | None = None,
  ) -> BertOutput:
    """Encodes a batch.

    Args:
      features: tensors, arrays or lists by name. Labels are ignored.
        - `input_ids`: int [B, F]. Word-piece ids; 0 is [PAD].
        - `input_mask`: int [B, F]. 1 for a real position; all 1 if missing.
        - `segment_ids`: int [B, F]. 0 or 1; all 0 if missing.
        - `cls_positions`: int [B, K]. For packed sequences: the index at which
          each input begins, ascending, then 0 in unused slots: [0, 7, 15, 0].
      training: whether dropout is on.
      return_attention_probs: whether to return the attention probabilities.
      positions: int [B, P]. The positions at which the last layer is computed,
        in addition to the [CLS] positions. P may be 0. None for all.

    Returns:
      A BertOutput: `sequence_output`, float [B, F, D], `pooled_output`, float
      [B, D], `all_encoder_layers`, `embedding_output` and `attention_probs`.

    Raises:
      ValueError: if F exceeds max_position_embeddings, for features that
        `model_inputs.check_features` refuses, or in an eager call for values
        out of range.
    """
    model_inputs.check_values(features, self.config, positions)
    inputs = model_inputs.prepare(features, self.config)
    embedded = self.embeddings(inputs, training=training)
    summary_positions, output_positions = inputs.summary_positions, None
    if positions is not None:
      # Nothing reads the rest of the last layer, so it is not computed: a
      # classifier reads one position, pre-training also the masked ones.
      positions = ops.cast(positions, "int32")
      output_positions = ops.concatenate([summary_positions, positions], axis=1)
    (*lower_layers, sequence_output), probs = self.encoder(
      embedded, inputs.attention, output_positions, training=training
    )
    if positions is None:
      summary = model_inputs.gather_indexes(sequence_output, summary_positions)
    else:
      num_summaries = ops.shape(summary_positions)[1]
      summary = sequence_output[:, :num_summaries]
      sequence_output = sequence_output[:, num_summaries:]
    return BertOutput(
      sequence_output=sequence_output,
      pooled_output=self.pooler(summary if inputs.is_packed else summary[:, 0]),
      all_encoder_layers=(*lower_layers, sequence_output),
      embedding_output=embedded,
      attention_probs=probs if return_attention_probs else (),
    )
