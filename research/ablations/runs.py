"""What is run: pre-trainings and fine-tunings as plain data.

Imports no TensorFlow.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from bert_tf import settings
from bert_tf.pipeline import config
from bert_tf.tasks import pretraining_config

PRETRAINING = "pretraining"
FINE_TUNING = "fine_tuning"

# Digits of a hash in a name.
_DIGITS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pretraining:
  """One pre-training, but for its seed and its text."""

  num_hidden_layers: int
  hidden_size: int
  num_attention_heads: int
  vocab_size: int  # Entries of the vocabulary at most.
  max_seq_length: int
  train_batch_size: int
  learning_rate: float
  num_train_steps: int
  warmup_proportion: float = 0.1
  dropout: float = 0.1
  initial_values: str = pretraining_config.RANDOM
  objective: str = "mlm"  # mlm, ltr or rtl.
  no_nsp: bool = False  # One segment an instance, and no second loss.
  do_whole_word_mask: bool = False
  # What becomes of a masked piece; what is left stays the same.
  mask_prob: float = 0.8
  random_prob: float = 0.1
  is_static: bool = False  # Masked once, when the records are made.
  is_packed: bool = False  # Short instances share a record.
  dupe_factor: int = 1  # Passes over the text when the records are made.
  text_share: float = 1.0  # Of the documents, (0, 1].

  @property
  def max_predictions_per_seq(self) -> int:
    """The word pieces that are masked in an instance at most."""
    return max(1, round(0.15 * self.max_seq_length)) + 1

  @property
  def label(self) -> str:
    """The size and what else is not usual, as part of a file's name."""
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
    """Returns the keys of bert_config.json; but for the heads as a Size's."""
    size = config.Size(
      self.num_hidden_layers,
      self.hidden_size,
      self.train_batch_size,
      self.learning_rate,
      vocab_size,
      self.dropout,
    )
    found = size.bert_config(vocab_size, self.max_seq_length)
    return {**found, "num_attention_heads": self.num_attention_heads}


@dataclasses.dataclass(frozen=True)
class FineTuning:
  """One fine-tuning of a pre-trained model, but for its seed and its data."""

  task: str  # A name in tasks.TASKS.
  max_seq_length: int
  train_batch_size: int
  learning_rate: float
  num_train_epochs: float
  num_examples: int | None = None  # Of the training set; None for all.
  step: int | None = None  # The checkpoint to start from; None for the last.
  feature_layers: str | None = None  # The feature-based approach, of these.
  has_bilstm: bool = False  # Between BERT and the task's own layer.

  @property
  def label(self) -> str:
    """What is not usual, as part of a file's name."""
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
  """A pre-training, or the fine-tuning of one, with its seed."""

  pretraining: Pretraining
  fine_tuning: FineTuning | None = None
  seed: int

  @property
  def kind(self) -> str:
    """PRETRAINING or FINE_TUNING."""
    return FINE_TUNING if self.fine_tuning else PRETRAINING

  @property
  def config(self) -> dict[str, Any]:
    """What the run is, but for data and seed: all that is not a default.

    So a field that comes later, with a default, leaves older runs what they
    are.
    """
    found = {"pretraining": _given(self.pretraining)}
    if self.fine_tuning:
      found["fine_tuning"] = _given(self.fine_tuning)
    return found

  @property
  def name(self) -> str:
    """A name for files, unique among configs and seeds."""
    parts = [self.pretraining.label]
    if self.fine_tuning:
      parts.append(self.fine_tuning.label)
    parts += [f"seed{self.seed}", digest(self.config)]
    return "-".join(parts)

  @property
  def source(self) -> "Run":
    """The pre-training that a fine-tuning starts from."""
    return Run(pretraining=self.pretraining, seed=self.seed)


def digest(value: Mapping[str, Any]) -> str:
  """Returns a short hash of what can be written as JSON."""
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _given(part: settings.Dataclass) -> dict[str, Any]:
  """Returns the fields that are not their defaults."""
  return {
    field.name: value
    for field in dataclasses.fields(part)
    if (value := getattr(part, field.name)) != field.default
  }
