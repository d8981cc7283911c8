"""The splits of a run: their examples, records, and what is told of them.

The log has a line for each split. It shows mistakes that are valid data: labels
that were read as something else, texts that lose most of their words, a file
that holds everything twice. run.json has a few examples for whoever serves the
model.
"""

import collections
import dataclasses
import itertools
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic

import tensorflow as tf
from absl import logging

from bert_tf.data import input_pipeline
from bert_tf.files import errors, paths
from bert_tf.formats import tables
from bert_tf.model_folder import label_map, run_info
from bert_tf.tasks import base

# The records of each split, in the folder of the run.
_RECORD_FILES = {
  "train": "train.tf_record",
  "dev": "eval.tf_record",
  "test": "predict.tf_record",
}

# Of the texts of an example in run.json.
_MAX_CHARACTERS = 1000
# Examples that are considered for run.json.
_MAX_READ = 300


class Splits(Generic[base.Example, base.Data]):
  """The prepared splits of a run; writes their records when they are needed.

  Args:
    task: of the run; its labels are known.
    examples: by split.
    sources: the origin of the examples of each split, for the log.
    output_dir: folder of the records.
  """

  def __init__(
    self,
    task: base.Task[base.Example, base.Data],
    examples: Mapping[str, Sequence[base.Example]],
    sources: Mapping[str, str],
    output_dir: str,
  ) -> None:
    self._task = task
    self._output_dir = output_dir
    self._summaries = {
      split: summarize(task, split, sources[split], e)
      for split, e in examples.items()
    }
    self.data = {split: task.prepare(split, e) for split, e in examples.items()}
    self._records: dict[str, input_pipeline.RecordFiles] = {}

  def records(self, split: str) -> input_pipeline.RecordFiles:
    """Returns the records of a split."""
    if split not in self._records:
      path = os.path.join(self._output_dir, _RECORD_FILES[split])
      records = self._task.write_records(split, path, self.data[split])
      logging.info("%s", self._summaries[split].line(records))
      self._records[split] = records
    return self._records[split]

  def batches(
    self, split: str, batch_size: int, has_few_widths: bool
  ) -> tf.data.Dataset:
    """Returns every record of a split once; as Batches.once."""
    return self._task.batches(split).once(
      self.records(split), batch_size, has_few_widths
    )


def read(
  task: base.Task[base.Example, base.Data],
  needed: Mapping[str, str],
  output_dir: str,
) -> dict[str, list[base.Example]]:
  """Returns the examples of the splits that are needed; sets the labels.

  Args:
    task: of the run.
    needed: the flag that asks for each split.
    output_dir: folder of the run, for messages.

  Raises:
    ValueError: for a file that is missing or faulty, or unknown labels.
  """
  files = {split: task.file(split) for split in needed}
  for split, (path, flag) in files.items():
    if not path:
      raise ValueError(
        f"`{needed[split]}` needs a {split} file, but there is none; set "
        f"`{flag}` or leave out `{needed[split]}`."
      )
  missing = [f for f in files.values() if not paths.exists(f.path or "")]
  if missing:
    raise ValueError(
      f"there is no {', no '.join(f.path or '' for f in missing)}; set "
      f"{' and '.join(dict.fromkeys(f'`{f.flag}`' for f in missing))}."
    )
  examples: dict[str, list[base.Example]] = {}
  if task.has_labels and task.label_spec is None:
    train = _read_labelled(task, output_dir)
    if "train" in files:
      examples["train"] = train
  for split, (path, _) in files.items():
    if split not in examples:
      examples[split] = task.read(split, path or "")
  return examples


def _read_labelled(
  task: base.Task[base.Example, base.Data], output_dir: str
) -> list[base.Example]:
  """Reads the training examples and sets the task's labels from them."""
  path = task.file("train").path
  if not path or not paths.exists(path):
    raise ValueError(
      f"the labels are not known: {output_dir} has neither {run_info.RUN_FILE} "
      f"nor {label_map.FILE}, and there is no {path}; copy the "
      f"{label_map.FILE} of the run that trained the model into `output_dir`."
    )
  examples = task.read("train", path)
  task.set_labels(examples, path)
  return examples


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


def run_fields(
  task: base.Task[base.Example, Any],
  examples: Mapping[str, Sequence[base.Example]],
  num_chosen: int,
) -> dict[str, Any]:
  """Returns fields of run.json: counts, and a few dev examples.

  Args:
    task: of the run.
    examples: by split; a split that was not read has no fields.
    num_chosen: the maximum number of dev examples.
  """
  fields: dict[str, Any] = {}
  for split in ("train", "dev"):
    if split in examples:
      fields[f"num_{split}_examples"] = len(examples[split])
  if "dev" in examples:
    chosen = _choose(task, examples["dev"], num_chosen)
    fields["examples"] = tuple(chosen) or None
  elif not num_chosen:
    fields["examples"] = None
  return fields


def _choose(
  task: base.Task[base.Example, Any],
  examples: Sequence[base.Example],
  count: int,
) -> list[dict[str, Any]]:
  """Returns short examples, one for each answer first."""
  first: list[dict[str, Any]] = []
  others: list[dict[str, Any]] = []
  seen: set[str] = set()
  for example in itertools.islice(examples, _MAX_READ):
    inputs, answer = task.inputs_and_answer(example)
    num_characters = sum(len("".join(text)) for text in inputs.values())
    if not inputs or num_characters > _MAX_CHARACTERS:
      continue
    texts = json.dumps((inputs, answer), ensure_ascii=False)
    if not tables.is_unicode(texts):  # No served model takes these.
      continue
    key = json.dumps(answer)
    (others if key in seen else first).append(
      {"inputs": inputs, "answer": answer}
    )
    seen.add(key)
  return [*first, *others][:count]
