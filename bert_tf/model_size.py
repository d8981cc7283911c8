"""Computes a model's parameters, operations and memory from its config.

Letters in the formulas: V vocabulary size, H hidden size, L layers, I
intermediate size, A attention heads, P positions, T segment types; B batch
size, S word pieces of an input, M masked words of an input.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from bert_tf import modeling

_FLOAT_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Term:
  """One summand of a total."""

  name: str
  formula: str
  value: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchSizes:
  """The sizes of a batch."""

  train_batch_size: int = 32
  max_seq_length: int = 128
  max_predictions_per_seq: int = 20


def total(terms: Sequence[Term]) -> int:
  """Returns the sum of the terms."""
  return sum(term.value for term in terms)


def encoder_parameters(config: modeling.BertConfig) -> list[Term]:
  """Returns the numbers of parameters of BertModel, including the pooler."""
  h, i = config.hidden_size, config.intermediate_size
  layers = config.num_hidden_layers
  positions, types = config.max_position_embeddings, config.type_vocab_size
  return [
    Term("word embeddings", "V H", config.vocab_size * h),
    Term("position embeddings", "P H", positions * h),
    Term("segment embeddings", "T H", types * h),
    Term("their layer norm", "2 H", 2 * h),
    Term(
      "attention: query, key, value, output",
      "L 4 (H^2 + H)",
      layers * 4 * (h * h + h),
    ),
    Term(
      "feed-forward: up and down, 8 H^2 a layer where I = 4 H",
      "L (2 H I + I + H)",
      layers * (2 * h * i + i + h),
    ),
    Term("layer norms", "L 4 H", layers * 4 * h),
    Term("pooler", "H^2 + H", h * h + h),
  ]


def pretraining_parameters(config: modeling.BertConfig) -> list[Term]:
  """Returns the numbers of parameters of the pre-training heads.

  The masked-LM head has no matrix of its own: it uses the word embeddings.
  """
  h = config.hidden_size
  return [
    Term("masked words: dense", "H^2 + H", h * h + h),
    Term("masked words: layer norm", "2 H", 2 * h),
    Term("masked words: bias", "V", config.vocab_size),
    Term("next sentence", "2 H + 2", 2 * h + 2),
  ]


def forward_operations(
  config: modeling.BertConfig, batch: BatchSizes
) -> list[Term]:
  """Returns the floating-point operations of pre-training's forward pass.

  Counts the multiplications and additions of matmuls; the rest is a few
  percent. Except for its keys and values, the last layer is computed only at
  the masked words and the first position.
  """
  h, i = config.hidden_size, config.intermediate_size
  layers, length = config.num_hidden_layers, batch.max_seq_length
  pieces = batch.train_batch_size * length
  masked = batch.train_batch_size * batch.max_predictions_per_seq
  # Positions summed over layers.
  rows = (layers - 1) * pieces + masked + batch.train_batch_size
  all_rows = layers * pieces
  computed = "B ((L - 1) S + M + 1)"
  return [
    Term("attention's keys and values", "B L S 4 H^2", all_rows * 4 * h * h),
    Term(
      "attention's queries and output", f"{computed} 4 H^2", rows * 4 * h * h
    ),
    Term(
      "attention's scores and sums", f"{computed} 4 S H", rows * 4 * length * h
    ),
    Term("feed-forward", f"{computed} 4 H I", rows * 4 * h * i),
    Term(
      "pooler and next sentence",
      "B 2 (H^2 + 2 H)",
      batch.train_batch_size * 2 * (h * h + 2 * h),
    ),
    Term(
      "masked words",
      "B M 2 (H^2 + H V)",
      masked * 2 * (h + config.vocab_size) * h,
    ),
  ]


def training_memory(
  config: modeling.BertConfig, batch: BatchSizes
) -> list[Term]:
  """Returns an estimate of the bytes of a training step in float32.

  The activations are counted as in Korthikanti et al. 2022, section 4.1, but
  with 4 bytes a value and without dropout masks, which are drawn again.
  """
  weights = _FLOAT_BYTES * total(
    [*encoder_parameters(config), *pretraining_parameters(config)]
  )
  layers = config.num_hidden_layers
  return [
    Term("weights", "4 bytes each", weights),
    Term("two moments of Adam", "8 bytes", 2 * weights),
    Term("gradients", "4 bytes", weights),
    Term(
      "activations",
      "L B (64 S H + 8 A S^2)",
      layers * _layer_bytes(config, batch),
    ),
  ]


def inference_memory(
  config: modeling.BertConfig, batch: BatchSizes
) -> list[Term]:
  """Returns an estimate of the bytes of a forward pass in float32.

  Activations are needed only until the next layer is computed.
  """
  weights = _FLOAT_BYTES * total(encoder_parameters(config))
  return [
    Term("weights", "4 bytes each", weights),
    Term(
      "activations of one layer",
      "B (64 S H + 8 A S^2)",
      _layer_bytes(config, batch),
    ),
  ]


def _layer_bytes(config: modeling.BertConfig, batch: BatchSizes) -> int:
  length = batch.max_seq_length
  scores = config.num_attention_heads * length * length
  values = 64 * length * config.hidden_size + 8 * scores
  return batch.train_batch_size * values


def report(config: modeling.BertConfig, batch: BatchSizes) -> Iterator[str]:
  """Yields lines that explain a model's parameters, operations and memory."""
  encoder, heads = encoder_parameters(config), pretraining_parameters(config)
  operations = forward_operations(config, batch)
  sizes = f"{batch.train_batch_size} x {batch.max_seq_length}"
  num_all = total(encoder) + total(heads)
  yield from _table("Parameters of the encoder", encoder)
  yield from _table("Parameters of the pre-training heads", heads)
  yield f"Both: {num_all:,}"
  yield from _table(
    f"Floating-point operations of a forward pass of {sizes}, "
    f"{batch.max_predictions_per_seq} masked words each",
    operations,
  )
  yield f"A training step takes three times these: {3 * total(operations):.3g}"
  for kind, memory in (
    ("training step", training_memory(config, batch)),
    ("prediction", inference_memory(config, batch)),
  ):
    yield from _table(f"Estimated bytes of such a {kind}", memory)
  yield (
    f"Bytes of a checkpoint: {_FLOAT_BYTES * num_all:,}, with Adam's moments "
    f"{3 * _FLOAT_BYTES * num_all:,}"
  )


def _table(title: str, terms: Sequence[Term]) -> Iterator[str]:
  rows = [*terms, Term("sum", "", total(terms))]
  width = max(len(f"{row.value:,}") for row in rows)
  yield f"{title}:"
  for row in rows:
    formula = f"  ({row.formula})" if row.formula else ""
    yield f"  {row.value:>{width},}  {row.name}{formula}"
