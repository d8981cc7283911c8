"""How the records of a task become batches."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from bert_tf.data import input_pipeline, padding


@dataclasses.dataclass(frozen=True)
class Batches:
  """Makes batches of records."""

  spec: input_pipeline.Spec
  vocab_size: int  # Every word-piece id must be below it.
  # Returns what the model takes of batches of whole records, such as
  # dynamically padded ones, and whether these have few widths.
  finish: Callable[[tf.data.Dataset, bool], tf.data.Dataset]
  # Whether training batches hold records of like length, which leaves little
  # padding to compute.
  group_by_length: bool = True

  def for_training(
    self,
    records: input_pipeline.RecordFiles,
    batch_size: int,
    seed: int,
    steps_done: int,
    has_few_widths: bool = False,
  ) -> tf.data.Dataset:
    """Returns endless shuffled batches; see input_pipeline.training_dataset.

    XLA compiles a program for each width: has_few_widths if it does.
    """
    return self.finish(
      input_pipeline.training_dataset(
        records,
        self.spec,
        batch_size,
        seed,
        steps_done,
        self.vocab_size,
        self.group_by_length,
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
  more: tuple[str, ...] = (),
  group_by_length: bool = True,
) -> Batches:
  """Returns batches that are padded to their longest input only.

  `more` are features of every position besides the model's input.
  """
  return Batches(
    spec,
    vocab_size,
    lambda batches, has_few_widths: padding.cut_padding(
      batches, max_seq_length, more, has_few_widths
    ),
    group_by_length,
  )
