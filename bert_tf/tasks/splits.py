"""The splits of a run: their examples, their records and their log lines.

The log line of a split shows mistakes in valid data: labels that were misread,
texts that lose most of their words, or a file that contains everything twice.
run.json stores a few examples for users of the served model.
"""

import functools
import itertools
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic

from absl import logging

from bert_tf.data import input_pipeline
from bert_tf.files import paths
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import base

# The records of each split.
_RECORD_FILES = {
  "train": "train.tf_record",
  "dev": "eval.tf_record",
  "test": "predict.tf_record",
}

# Maximum total length of an example's texts in run.json.
_MAX_CHARACTERS = 1000
# Maximum number of examples to consider for run.json.
_MAX_READ = 300


class Splits(Generic[base.Example, base.Data]):
  """The splits that a run needs, with their prepared data and records.

  Args:
    task: the run's task, with known labels.
    examples: the examples of the needed splits, "train", "dev" or "test".
    sources: the origin of the examples by split, for the log.
    output_dir: folder of the run.

  Attributes:
    records_dir: folder of the records, which are written on first use. The
      folder of the run, unless it is set.
  """

  def __init__(
    self,
    task: base.Task[base.Example, base.Data],
    examples: Mapping[str, Sequence[base.Example]],
    sources: Mapping[str, str],
    output_dir: str,
  ) -> None:
    self._task = task
    self.records_dir = output_dir
    self._examples = examples
    self._sources = sources
    self._records: dict[str, input_pipeline.RecordFiles] = {}

  @functools.cached_property
  def data(self) -> dict[str, base.Data]:
    """The data of each split, as base.Task.prepare returns them."""
    return {s: self._task.prepare(s, e) for s, e in self._examples.items()}

  def run_fields(self, max_examples: int) -> dict[str, Any]:
    """Returns fields of run.json: counts, and a few dev examples.

    Only splits that the run needs have fields. If max_examples is 0, removes
    the examples that an earlier command stored.
    """
    fields: dict[str, Any] = {
      f"num_{split}_examples": len(self._examples[split])
      for split in ("train", "dev")
      if split in self._examples
    }
    if "dev" in self._examples:
      examples = self._short_examples()[:max_examples]
      fields["examples"] = tuple(examples) or None
    elif not max_examples:
      fields["examples"] = None
    return fields

  def _short_examples(self) -> list[dict[str, Any]]:
    """Returns short, different dev examples, one for each answer first."""
    first: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    seen: set[str] = set()
    for example in itertools.islice(self._examples["dev"], _MAX_READ):
      inputs, answer = self._task.inputs_and_answer(example)
      num_characters = sum(len("".join(text)) for text in inputs.values())
      if not inputs or num_characters > _MAX_CHARACTERS:
        continue
      texts = json.dumps((inputs, answer), ensure_ascii=False)
      if not tables.is_unicode(texts):  # Served models reject such texts.
        continue
      key, text = json.dumps(answer), json.dumps(inputs)
      if text not in seen:
        (others if key in seen else first).append(
          {"inputs": inputs, "answer": answer}
        )
      seen |= {key, text}
    return [*first, *others]

  def records(self, split: str) -> input_pipeline.RecordFiles:
    """Returns the records of a split; on first use, writes and logs them."""
    if split not in self._records:
      path = os.path.join(self.records_dir, _RECORD_FILES[split])
      records = self._task.write_records(split, path, self.data[split])
      source, examples = self._sources[split], self._examples[split]
      line = summary_line(self._task, split, source, examples, records)
      logging.info("%s", line)
      self._records[split] = records
    return self._records[split]


def read(
  task: base.Task[base.Example, base.Data],
  flags: Mapping[str, str],
  output_dir: str,
) -> Splits[base.Example, base.Data]:
  """Reads the splits that a run needs; sets the task's labels if unknown.

  Args:
    task: the run's task.
    flags: for each needed split, the flag that asks for it.
    output_dir: folder of the run.

  Raises:
    ValueError: for a missing or faulty file, or if the labels are not known.
  """
  files = {split: task.files[split] for split in flags}
  for split, (path, flag) in files.items():
    if not path:
      raise ValueError(
        f"`{flags[split]}` needs a {split} file; set `{flag}` or turn off "
        f"`{flags[split]}`."
      )
  _check_exist(files.values())
  examples: dict[str, list[base.Example]] = {}
  if task.has_labels and task.label_spec is None:
    train = _read_labelled(task, output_dir)
    if "train" in files:
      examples["train"] = train
  for split, (path, _) in files.items():
    if split not in examples:
      examples[split] = task.read(split, path or "")
  sources = {split: path or "" for split, (path, _) in files.items()}
  return Splits(task, examples, sources, output_dir)


def _check_exist(files: Iterable[base.SplitFile]) -> None:
  """Raises ValueError for the files and folders that do not exist."""
  missing = [f for f in files if not paths.exists(f.path or "")]
  for path, flag in missing:
    folder = os.path.dirname(path or "")
    if paths.is_file(folder):
      raise ValueError(f"{folder} (`{flag}`) is a file, not a folder.")
    if folder and not paths.exists(folder):
      raise ValueError(f"there is no folder {folder} (`{flag}`).")
  if missing:
    names = dict.fromkeys(f.path or "" for f in missing)
    settings = dict.fromkeys(f"`{f.flag}`" for f in missing)
    raise ValueError(
      f"there is no {', no '.join(names)}; set {' and '.join(settings)}."
    )


def _read_labelled(
  task: base.Task[base.Example, base.Data], output_dir: str
) -> list[base.Example]:
  """Reads the training examples and sets the task's labels from them."""
  path = task.files["train"].path
  if not path or not paths.exists(path):
    label_map = run_info.LABEL_MAP_FILE
    raise ValueError(
      f"the labels are not known: {output_dir} has neither {run_info.RUN_FILE} "
      f"nor {label_map}, and there is no {path}; copy the {label_map} of the "
      "run that trained the model into `output_dir`."
    )
  examples = task.read("train", path)
  task.set_labels(examples, path)
  return examples


def summary_line(
  task: base.Task[base.Example, Any],
  split: str,
  source: str,
  examples: Sequence[base.Example],
  records: input_pipeline.RecordFiles,
) -> str:
  """Returns the log line of a split: its examples, labels and records."""
  parts = [
    f"{len(examples)} {split} examples",
    f"{records.num_records} records",
    task.describe_labels(examples),
  ]
  if records.num_cut is None:
    parts.append("not known how many too long")
  else:
    share = records.num_cut / max(1, len(examples))
    parts.append(f"{records.num_cut} ({share:.0%}) too long")
  inputs = [values for e in examples if (values := _inputs(task, e))]
  if inputs:
    parts.append(f"{len(inputs) - len(set(inputs))} repeated")
  num_dropped = 0
  if isinstance(examples, tables.Examples):
    num_dropped = examples.num_dropped
  parts.append(f"{num_dropped} left out")
  if records.is_reused:
    parts.append("records of an earlier run")
  return f"{source}: {'; '.join(parts)}."


def _inputs(
  task: base.Task[base.Example, Any], example: base.Example
) -> Hashable:
  """Returns an example's inputs for comparison; () if it has no such inputs."""
  inputs, _ = task.inputs_and_answer(example)
  return tuple(
    text if isinstance(text, str) else tuple(text) for text in inputs.values()
  )
