"""Computes a model's parameters, operations and memory from its config.

Letters in the formulas: V vocabulary size, H hidden size, L layers, I
intermediate size, A attention heads, P positions, T segment types; B batch
size, S word pieces of an input, M masked words of an input; W all weights of
the encoder (and, in training, of the pre-training heads).
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

from bert_tf.model_config import BertConfig

# Names and formulas by table.
_FORMULAS = {
  # The pooler belongs to the encoder.
  "encoder": {
    "word embeddings": "V H",
    "position embeddings": "P H",
    "segment embeddings": "T H",
    "their layer norm": "2 H",
    "attention: query, key, value, output": "L 4 (H^2 + H)",
    "feed-forward: up and down, 8 H^2 a layer where I = 4 H": (
      "L (2 H I + I + H)"
    ),
    "layer norms": "L 4 H",
    "pooler": "H^2 + H",
  },
  # The masked-LM head has no matrix of its own: it uses the word embeddings.
  "heads": {
    "masked words: dense": "H^2 + H",
    "masked words: layer norm": "2 H",
    "masked words: bias": "V",
    "next sentence": "2 H + 2",
  },
  # Multiplications and additions of matmuls; the rest is a few percent. Except
  # for its keys and values, the last layer is computed only at the masked words
  # and the first position.
  "forward": {
    "attention's keys and values": "B L S 4 H^2",
    "attention's queries and output": "B ((L - 1) S + M + 1) 4 H^2",
    "attention's scores and sums": "B ((L - 1) S + M + 1) 4 S H",
    "feed-forward": "B ((L - 1) S + M + 1) 4 H I",
    "pooler and next sentence": "B 2 (H^2 + 2 H)",
    "masked words": "B M 2 (H^2 + H V)",
  },
  # Bytes in float32. Activations are counted as in Korthikanti et al. 2022,
  # section 4.1, but with 4 bytes a value and without dropout masks, which are
  # drawn again.
  "training": {
    "weights": "4 W",
    "two moments of Adam": "8 W",
    "gradients": "4 W",
    "activations": "L B (64 S H + 8 A S^2)",
  },
  # Activations are needed only until the next layer is computed.
  "inference": {
    "weights": "4 W",
    "activations of one layer": "B (64 S H + 8 A S^2)",
  },
}


class Term(NamedTuple):
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


def terms(
  table: str, config: BertConfig, batch: BatchSizes | None = None
) -> list[Term]:
  """Returns the terms of a table.

  The tables are "encoder" and "heads" for parameters, "forward" for the
  floating-point operations of pre-training, and "training" and "inference" for
  an estimate of the bytes in float32. The last three are those of a batch.
  """
  batch = batch or BatchSizes()
  weights = 0
  if table in ("training", "inference"):
    weights = sum(term.value for term in terms("encoder", config))
  if table == "training":
    weights += sum(term.value for term in terms("heads", config))
  values = {
    "V": config.vocab_size,
    "H": config.hidden_size,
    "L": config.num_hidden_layers,
    "I": config.intermediate_size,
    "A": config.num_attention_heads,
    "P": config.max_position_embeddings,
    "T": config.type_vocab_size,
    "B": batch.train_batch_size,
    "S": batch.max_seq_length,
    "M": batch.max_predictions_per_seq,
    "W": weights,
  }
  result = []
  for name, formula in _FORMULAS[table].items():
    # Python's form of a formula: 2 H^2 is 2 * H**2.
    code = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", formula).replace("^", "**")
    result.append(Term(name, formula, eval(code, {}, values)))
  return result


def report(config: BertConfig, batch: BatchSizes) -> Iterator[str]:
  """Yields lines that explain a model's parameters, operations and memory."""
  sizes = f"{batch.train_batch_size} x {batch.max_seq_length}"
  masked = f"{batch.max_predictions_per_seq} masked words each"
  sums = {}
  for table, title in {
    "encoder": "Parameters of the encoder",
    "heads": "Parameters of the pre-training heads",
    "forward": f"Operations of a forward pass of {sizes}, {masked}",
    "training": "Bytes of such a training step",
    "inference": "Bytes of such a prediction",
  }.items():
    rows = terms(table, config, batch)
    sums[table] = sum(row.value for row in rows)
    rows.append(Term("sum", "", sums[table]))
    width = max(len(f"{row.value:,}") for row in rows)
    yield f"{title}:"
    for name, formula, value in rows:
      yield f"  {value:>{width},}  {name}" + (
        f"  ({formula})" if formula else ""
      )
  num_weights = sums["encoder"] + sums["heads"]
  yield f"Parameters in all: {num_weights:,}"
  yield f"A training step takes {3 * sums['forward']:.3g} operations."
  yield (
    f"Bytes of a checkpoint: {4 * num_weights:,}, with Adam's moments "
    f"{12 * num_weights:,}"
  )
