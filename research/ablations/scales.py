"""Scales of the experiments, from minutes on two cores to a cluster.

Imports no TensorFlow.
"""

import dataclasses
from typing import NamedTuple

from bert_tf.tasks.pretraining import pretraining_config
from research.ablations import runs

# Number of checkpoints of a pre-training, evenly spaced.
NUM_MARKS = 8


class Size(NamedTuple):
  """The settings of `runs.Pretraining` that a model size changes."""

  num_hidden_layers: int
  hidden_size: int
  num_attention_heads: int
  learning_rate: float

  @property
  def label(self) -> str:
    """The size as "LAYERS x WIDTH, N heads"."""
    plural = "" if self.num_attention_heads == 1 else "s"
    return (
      f"{self.num_hidden_layers} x {self.hidden_size}, "
      f"{self.num_attention_heads} head{plural}"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
  """Model sizes, data sizes and training lengths of all experiments."""

  name: str
  explanation: str
  base: runs.Pretraining  # Variants change some of its settings.
  fine_tunings: tuple[runs.FineTuning, ...]  # At most one per task.
  sizes: tuple[Size, ...]  # In the order of papers.SIZES.
  batch_factors: tuple[float, ...]  # Batch sizes relative to the base.
  # Sizes of the reference curves, named after the released models.
  curves: tuple[tuple[str, Size], ...]
  text_share: float  # Share of the text that masking_time reads repeatedly.
  seeds: tuple[int, ...]
  num_evaluations: int  # Evaluations during each pre-training.
  max_eval_steps: int  # Batches per evaluation.
  eval_fraction: float  # Share of held-out documents.
  max_variants: int | None = None  # Variants per experiment; None for all.
  max_tasks: int | None = None  # Tasks per variant; None for all.

  def fine_tuning(self, task: str) -> runs.FineTuning | None:
    """Returns the fine-tuning of a task; None if the scale leaves it out."""
    return next((f for f in self.fine_tunings if f.task == task), None)


_SMOKE = Scale(
  name="smoke",
  explanation="every kind of experiment in minutes; no result means anything",
  base=runs.Pretraining(
    num_hidden_layers=1,
    hidden_size=16,
    num_attention_heads=2,
    vocab_size=300,
    max_seq_length=32,
    train_batch_size=4,
    learning_rate=1e-3,
    num_train_steps=8,
    dropout=0.0,
  ),
  fine_tunings=(
    runs.FineTuning("MRPC", 32, 4, 1e-3, 1.0, 8),
    runs.FineTuning("SQuAD", 32, 4, 1e-3, 1.0, 8),
    # Fewer sentences would lack some of the entity types.
    runs.FineTuning("NER", 32, 4, 1e-3, 0.05, 200),
    runs.FineTuning("SST-2", 32, 4, 1e-3, 1.0, 8),
    runs.FineTuning("QNLI", 32, 4, 1e-3, 1.0, 8),
  ),
  sizes=(Size(1, 16, 2, 1e-3), Size(2, 16, 2, 1e-3)),
  batch_factors=(1.0, 2.0),
  curves=(("tiny", Size(1, 16, 2, 1e-3)),),
  text_share=0.5,
  seeds=(1,),
  num_evaluations=2,
  max_eval_steps=2,
  eval_fraction=0.2,
  max_variants=2,
  max_tasks=1,
)

_TINY = Scale(
  name="tiny",
  explanation="about 27 hours on two cores",
  base=runs.Pretraining(
    num_hidden_layers=2,
    hidden_size=128,
    num_attention_heads=2,
    vocab_size=5_000,
    max_seq_length=128,
    train_batch_size=16,
    learning_rate=1e-3,
    num_train_steps=2_400,
    # Each word is seen only once; see pipeline.config.Size.
    dropout=0.0,
    # From random values, these steps only teach token frequencies.
    initial_values=pretraining_config.NEIGHBOURS,
  ),
  fine_tunings=(
    runs.FineTuning("QNLI", 128, 32, 3e-4, 2.0, 8_000),
    runs.FineTuning("MRPC", 128, 32, 3e-4, 3.0),
    runs.FineTuning("SST-2", 64, 32, 3e-4, 2.0, 8_000),
    runs.FineTuning("SQuAD", 128, 32, 3e-4, 2.0, 4_000),
    runs.FineTuning("NER", 128, 32, 5e-4, 3.0, 5_000),
  ),
  sizes=(
    Size(1, 128, 2, 1e-3),
    Size(2, 128, 1, 1e-3),
    Size(2, 128, 2, 1e-3),
    # At 1e-3, four layers learn only token frequencies.
    Size(4, 128, 2, 4e-4),
    Size(4, 192, 3, 3e-4),
    Size(8, 192, 3, 2e-4),
  ),
  batch_factors=(0.5, 1.0, 2.0, 4.0),
  curves=(
    ("tiny", Size(2, 128, 2, 1e-3)),
    ("mini", Size(4, 256, 4, 3e-4)),
    ("small", Size(4, 512, 8, 2e-4)),
  ),
  text_share=0.05,
  seeds=(1, 2, 3),
  num_evaluations=12,
  max_eval_steps=24,
  eval_fraction=0.03,
)

_BASE = Scale(
  name="base",
  explanation="BERT-BASE as in the paper, for a cluster",
  base=runs.Pretraining(
    num_hidden_layers=12,
    hidden_size=768,
    num_attention_heads=12,
    vocab_size=30_522,
    max_seq_length=512,
    train_batch_size=256,
    learning_rate=1e-4,
    num_train_steps=1_000_000,
    warmup_proportion=0.01,
    dropout=0.1,
  ),
  # Devlin et al. 2019, A.3 and 4.2, with all training data.
  fine_tunings=(
    runs.FineTuning("MNLI", 128, 32, 3e-5, 3.0),
    runs.FineTuning("QNLI", 128, 32, 3e-5, 3.0),
    runs.FineTuning("MRPC", 128, 32, 3e-5, 3.0),
    runs.FineTuning("SST-2", 128, 32, 3e-5, 3.0),
    runs.FineTuning("SQuAD", 384, 32, 5e-5, 3.0),
    runs.FineTuning("NER", 128, 32, 5e-5, 4.0),
  ),
  sizes=(
    Size(3, 768, 12, 1e-4),
    Size(6, 768, 3, 1e-4),
    Size(6, 768, 12, 1e-4),
    Size(12, 768, 12, 1e-4),
    Size(12, 1024, 16, 1e-4),
    Size(24, 1024, 16, 1e-4),
  ),
  batch_factors=(1.0, 8.0, 32.0),
  curves=(
    ("tiny", Size(2, 128, 2, 1e-4)),
    ("mini", Size(4, 256, 4, 1e-4)),
    ("small", Size(4, 512, 8, 1e-4)),
    ("base", Size(12, 768, 12, 1e-4)),
  ),
  text_share=1.0,
  seeds=(1, 2, 3),
  num_evaluations=20,
  max_eval_steps=200,
  eval_fraction=0.001,
)

_LARGE = dataclasses.replace(
  _BASE,
  name="large",
  explanation="BERT-LARGE as in the paper, for a cluster",
  base=dataclasses.replace(
    _BASE.base, num_hidden_layers=24, hidden_size=1024, num_attention_heads=16
  ),
  curves=(("large", Size(24, 1024, 16, 1e-4)),),
)

SCALES = {s.name: s for s in (_SMOKE, _TINY, _BASE, _LARGE)}
