"""Computes a model's parameters, operations and memory from its config.

Letters in the formulas: V vocabulary size, H hidden size, L layers, I
intermediate size, A attention heads, P positions, T segment types; B batch
size, S word pieces of an input, M masked words of an input; W all weights of
the encoder (and, in training, of the pre-training heads).
"""

from collections.abc import Iterator
from typing import NamedTuple

from bert_tf.model.model_config import BertConfig


class Term(NamedTuple):
  """One summand of a total."""

  name: str
  formula: str
  value: int


def terms(
  table: str, config: BertConfig, batch: tuple[int, int, int] = (32, 128, 20)
) -> list[Term]:
  """Returns the terms of a table.

  The tables are "encoder" and "heads" for parameters, "forward" for the
  floating-point operations of pre-training, and "training" and "inference" for
  an estimate of the bytes in float32. The last three are those of a batch: B, S
  and M.
  """
  v, h, i = config.vocab_size, config.hidden_size, config.intermediate_size
  layers, a = config.num_hidden_layers, config.num_attention_heads
  p, t = config.max_position_embeddings, config.type_vocab_size
  b, s, m = batch
  tables: dict[str, list[Term]] = {}
  tables["encoder"] = [
    Term("word embeddings", "V H", v * h),
    Term("position embeddings", "P H", p * h),
    Term("segment embeddings", "T H", t * h),
    Term("their layer norm", "2 H", 2 * h),
    Term("attention", "L 4 (H^2 + H)", layers * 4 * (h * h + h)),
    Term("feed-forward", "L (2 H I + I + H)", layers * (2 * h * i + i + h)),
    Term("layer norms", "L 4 H", layers * 4 * h),
    Term("pooler", "H^2 + H", h * h + h),  # It belongs to the encoder.
  ]
  # The masked-LM head has no matrix of its own: it uses the word embeddings.
  tables["heads"] = [
    Term("masked words: dense", "H^2 + H", h * h + h),
    Term("masked words: layer norm", "2 H", 2 * h),
    Term("masked words: bias", "V", v),
    Term("next sentence", "2 H + 2", 2 * h + 2),
  ]
  # Multiplications and additions of matmuls; the rest is a few percent. Except
  # for its keys and values, the last layer is computed only at the masked words
  # and the first position.
  n = b * ((layers - 1) * s + m + 1)
  symbol = "B ((L - 1) S + M + 1)"
  tables["forward"] = [
    Term("keys and values", "B L S 4 H^2", b * layers * s * 4 * h * h),
    Term("queries and attention's output", f"{symbol} 4 H^2", n * 4 * h * h),
    Term("attention's scores and sums", f"{symbol} 4 S H", n * 4 * s * h),
    Term("feed-forward", f"{symbol} 4 H I", n * 4 * h * i),
    Term("pooler, next sentence", "B 2 (H^2 + 2 H)", b * 2 * (h * h + 2 * h)),
    Term("masked words", "B M 2 (H^2 + H V)", b * m * 2 * (h * h + h * v)),
  ]
  # Bytes in float32. Activations are counted as in Korthikanti et al. 2022,
  # section 4.1, but with 4 bytes a value and without dropout masks, which are
  # drawn again. In prediction, they are needed only until the next layer is
  # computed.
  in_encoder = sum(term.value for term in tables["encoder"])
  w = in_encoder + sum(term.value for term in tables["heads"])
  activations = b * (64 * s * h + 8 * a * s * s)
  tables["inference"] = [
    Term("weights", "4 W", 4 * in_encoder),
    Term("activations of one layer", "B (64 S H + 8 A S^2)", activations),
  ]
  tables["training"] = [
    Term("weights", "4 W", 4 * w),
    Term("two moments of Adam", "8 W", 8 * w),
    Term("gradients", "4 W", 4 * w),
    Term("activations", "L B (64 S H + 8 A S^2)", layers * activations),
  ]
  return tables[table]


def report(config: BertConfig, batch: tuple[int, int, int]) -> Iterator[str]:
  """Yields lines that explain a model's parameters, operations and memory."""
  sizes = "{} x {}, {} masked words each".format(*batch)
  sums = {}
  for table, title in {
    "encoder": "Parameters of the encoder",
    "heads": "Parameters of the pre-training heads",
    "forward": f"Operations of a forward pass of {sizes}",
    "training": "Bytes of such a training step",
    "inference": "Bytes of such a prediction",
  }.items():
    rows = terms(table, config, batch)
    sums[table] = sum(row.value for row in rows)
    rows.append(Term("sum", "", sums[table]))
    width = max(len(f"{row.value:,}") for row in rows)
    yield f"{title}:"
    for name, formula, value in rows:
      yield f"  {value:>{width},}  {name}{formula and f'  ({formula})'}"
  num_weights = sums["encoder"] + sums["heads"]
  yield f"Parameters in all: {num_weights:,}"
  yield f"A training step takes {3 * sums['forward']:.3g} operations."
  yield (
    f"Bytes of a checkpoint: {4 * num_weights:,}, with Adam's moments "
    f"{12 * num_weights:,}"
  )
