"""Summarises the examples of a split in one line of the log.

The line shows mistakes that are valid data: labels that were read as something
else, texts that lose most of their words, a file that holds everything twice.
"""

import collections
import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from bert_tf.data import input_pipeline
from bert_tf.files import errors
from bert_tf.formats import tables
from bert_tf.model_folder import label_map
from bert_tf.tasks import base


@dataclasses.dataclass(frozen=True)
class SplitSummary:
  """The numbers that a log line gives for a split."""

  source: str  # The file, or a name for examples in memory.
  split: str  # "train", "dev" or "test".
  num_examples: int
  labels: str  # As base.Task.describe_labels returns them.
  # Examples with the same inputs as an earlier one; None if not known.
  num_repeated: int | None
  num_dropped: int  # Examples of the source that are not used.
  cut: str  # As base.Task.describe_cut returns it.

  def line(self, records: input_pipeline.RecordFiles) -> str:
    """Returns the line to log, once the records of the split are there."""
    parts = [f"{self.num_examples} {self.split} examples", self.labels]
    if records.num_cut is None:
      parts.append(f"not known how many {self.cut}")
    else:
      share = records.num_cut / max(1, self.num_examples)
      parts.append(f"{records.num_cut} ({share:.0%}) {self.cut}")
    if self.num_repeated is not None:
      parts.append(f"{self.num_repeated} repeated")
    parts.append(f"{self.num_dropped} left out")
    if records.is_reused:
      parts.append("records of an earlier run")
    return f"{self.source}: {'; '.join(parts)}."


def summarize(
  task: base.Task[base.Example, Any],
  split: str,
  source: str,
  examples: Sequence[base.Example],
) -> SplitSummary:
  """Returns the summary of a split whose labels are known."""
  inputs = [_inputs(task, example) for example in examples]
  known = [values for values in inputs if values]
  num_dropped = 0
  if isinstance(examples, tables.Examples):
    num_dropped = examples.num_dropped
  return SplitSummary(
    source=source,
    split=split,
    num_examples=len(examples),
    labels=task.describe_labels(examples),
    num_repeated=len(known) - len(set(known)) if known else None,
    num_dropped=num_dropped,
    cut=task.describe_cut(),
  )


def describe_labels(spec: label_map.LabelSpec, names: Iterable[str]) -> str:
  """Returns the origin of the labels and the count of each.

  Args:
    spec: the labels of the model.
    names: the labels of the examples, each as often as it occurs.
  """
  counts = collections.Counter(names)
  unused = [name for name in spec.labels if not counts[name]]
  text = describe_counts({name: counts[name] for name in spec.labels})
  if unused:
    text += f" (none with {errors.listed(unused)})"
  return f"labels of {spec.origin.name}: {text}"


def describe_counts(counts: Mapping[str, int]) -> str:
  """Returns labels with their counts, those of the first labels if many."""
  return errors.listed([f"{name} {count}" for name, count in counts.items()])


def _inputs(
  task: base.Task[base.Example, Any], example: base.Example
) -> Hashable:
  """Returns the inputs of an example to compare; () if not known."""
  inputs, _ = task.inputs_and_answer(example)
  return tuple(
    text if isinstance(text, str) else tuple(text) for text in inputs.values()
  )
