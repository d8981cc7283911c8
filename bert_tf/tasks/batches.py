"""Batches of a task's records."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_tf.data import input_pipeline, padding


@dataclasses.dataclass(frozen=True)
class Batches:
  """Builds data sets of batches from records."""

  spec: input_pipeline.Spec
  vocab_size: int  # Every word-piece id must be below it.
  # Turns batches of parsed records into the model's input, for instance by
  # dynamic padding. The flag says whether batches should have few widths.
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


def dynamic_padding(
  spec: input_pipeline.Spec,
  vocab_size: int,
  max_seq_length: int,
  other_features: tuple[str, ...] = (),
) -> Batches:
  """Returns batches that are padded only to their longest input.

  Args:
    spec: the features of a record.
    vocab_size: every word-piece id must be below it.
    max_seq_length: F, the length of each record in word pieces.
    other_features: names of further features of shape [B, F], such as labels of
      positions.
  """
  return Batches(
    spec,
    vocab_size,
    lambda batches, has_few_widths: padding.cut_padding(
      batches, max_seq_length, other_features, has_few_widths
    ),
  )
