"""Batches of a task's records."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_tf.data import input_pipeline


@dataclasses.dataclass(frozen=True)
class Batches:
  """Builds data sets of batches from records."""

  spec: input_pipeline.Spec
  vocab_size: int  # Every word-piece id must be below it.
  # Makes the model's input. The flag says whether batches have few widths.
  finish: Callable[[tf.data.Dataset, bool], tf.data.Dataset]

  def for_training(
    self,
    records: input_pipeline.RecordFiles,
    batch_size: int,
    seed: int,
    steps_done: int,
    has_few_widths: bool = False,
    group_by_length: bool = False,
  ) -> tf.data.Dataset:
    """Returns endless shuffled batches; see input_pipeline.training_dataset.

    Set has_few_widths if XLA compiles the model: it compiles one program for
    each width.
    """
    return self.finish(
      input_pipeline.training_dataset(
        records,
        self.spec,
        batch_size,
        seed,
        steps_done,
        self.vocab_size,
        group_by_length,
      ),
      has_few_widths,
    )

  def once(
    self,
    records: input_pipeline.RecordFiles,
    batch_size: int,
    has_few_widths: bool = False,
  ) -> tf.data.Dataset:
    """Returns every record once, in order; the last batch may be short."""
    return self.finish(
      input_pipeline.finite_dataset(
        records, self.spec, batch_size, self.vocab_size
      ),
      has_few_widths,
    )
