"""Pre-trainings and fine-tunings to run, and their rows, as plain data.

Imports no TensorFlow.
"""

import dataclasses
from typing import Any

from bert_tf.pipeline import config
from bert_tf.tasks.pretraining import pretraining_config
from research import rows

# What a position attends to, by the objective of a language model.
DIRECTIONS = {"ltr": "left_to_right", "rtl": "right_to_left"}

PRETRAINING = "pretraining"
FINE_TUNING = "fine_tuning"

Curve = dict[str, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining:
  """Settings of a pre-training, except its seed and text."""

  num_hidden_layers: int
  hidden_size: int
  num_attention_heads: int
  vocab_size: int  # Maximum number of vocabulary entries.
  max_seq_length: int
  train_batch_size: int
  learning_rate: float
  num_train_steps: int
  warmup_proportion: float = 0.1
  dropout: float = 0.1
  initial_values: str = pretraining_config.RANDOM  # Or "cooccurrence".
  objective: str = "mlm"  # mlm, ltr or rtl.
  no_nsp: bool = False  # One segment per instance and no next-sentence loss.
  do_whole_word_mask: bool = False
  # Share of selected tokens replaced by [MASK] and by random tokens. The rest
  # stays unchanged.
  mask_prob: float = 0.8
  random_prob: float = 0.1
  is_static: bool = False  # Masked once, when records are created.
  is_packed: bool = False  # Short instances share a record.
  dupe_factor: int = 1  # Passes over the text when records are created.
  text_share: float = 1.0  # Share of the documents to use, in (0, 1].

  @property
  def keep_prob(self) -> float:
    """Share of selected tokens that stay unchanged."""
    return round(1 - self.mask_prob - self.random_prob, 6)

  @property
  def max_predictions_per_seq(self) -> int:
    """The maximum number of masked positions per instance."""
    return max(1, round(0.15 * self.max_seq_length)) + 1

  @property
  def label(self) -> str:
    """The objective, the size and all flags that are set, for a file name."""
    parts = [
      self.objective,
      f"L{self.num_hidden_layers}",
      f"H{self.hidden_size}",
    ]
    names = {
      "no_nsp": "no_nsp",
      "do_whole_word_mask": "whole_words",
      "is_static": "static",
      "is_packed": "packed",
    }
    parts += [name for field, name in names.items() if getattr(self, field)]
    return "-".join(parts)

  def bert_config(self, vocab_size: int) -> dict[str, Any]:
    """Returns the content of bert_config.json.

    All values except the number of heads follow from `pipeline.config.Size`.
    """
    size = config.Size(
      self.num_hidden_layers,
      self.hidden_size,
      self.train_batch_size,
      self.learning_rate,
      vocab_size,
      self.dropout,
    )
    heads = {"num_attention_heads": self.num_attention_heads}
    values = {**size.bert_config, **heads}
    if self.objective != "mlm":
      values["attention_direction"] = DIRECTIONS[self.objective]
    return values


@dataclasses.dataclass(frozen=True)
class FineTuning:
  """Settings of a fine-tuning, except its seed and data."""

  task: str  # A name in tasks.TASKS.
  max_seq_length: int
  train_batch_size: int
  learning_rate: float
  num_train_epochs: float
  num_examples: int | None = None  # Maximum per file; None for all.
  step: int | None = None  # Step of the initial checkpoint; None for the last.
  # Layers for the feature-based approach; None to fine-tune all weights.
  feature_layers: str | None = None
  has_bilstm: bool = False  # Whether a BiLSTM follows BERT.

  @property
  def label(self) -> str:
    """The task, feature layers, BiLSTM and step, as part of a file name."""
    parts = [self.task.replace("-", "").lower()]
    if self.feature_layers:
      parts.append(self.feature_layers)
    if self.has_bilstm:
      parts.append("bilstm")
    if self.step is not None:
      parts.append(f"step{self.step}")
    return "-".join(parts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
  """A pre-training, or a fine-tuning of its model, with one seed for both."""

  pretraining: Pretraining
  fine_tuning: FineTuning | None = None
  seed: int

  @property
  def kind(self) -> str:
    """PRETRAINING or FINE_TUNING."""
    return FINE_TUNING if self.fine_tuning else PRETRAINING

  @property
  def config(self) -> dict[str, Any]:
    """All settings that differ from their defaults.

    Leaving out defaults keeps the names of old runs when a field is added.
    """
    config = {"pretraining": rows.non_defaults(self.pretraining)}
    if self.fine_tuning:
      config["fine_tuning"] = rows.non_defaults(self.fine_tuning)
    return config

  @property
  def name(self) -> str:
    """A file name that is unique to the config and the seed."""
    parts = [self.pretraining.label]
    if self.fine_tuning:
      parts.append(self.fine_tuning.label)
    parts += [f"seed{self.seed}", rows.digest(self.config)]
    return "-".join(parts)

  @property
  def source(self) -> "Run":
    """The pre-training that a fine-tuning starts from."""
    return Run(pretraining=self.pretraining, seed=self.seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(rows.Row):
  """A Run that finished or failed; see research/rows.py.

  `data` has the hashes of the text and vocabulary files, by name, and of the
  task's files, by split.
  """

  kind: str  # PRETRAINING or FINE_TUNING.
  # Under "training" and "held_out": lists of equal length, by metric and, for
  # the axes, by "step" and "word_pieces". Empty for fine-tunings.
  curve: Curve = dataclasses.field(default_factory=dict)


def key(run: Run | Row) -> str:
  """Returns a hash of the config and the seed, but not of the data."""
  return rows.digest({"config": run.config, "seed": run.seed})
