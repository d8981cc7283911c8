"""The splits of a run: their examples, their records and their log lines.

The log line of a split shows mistakes in valid data: labels that were misread,
texts that lose most of their words, or a file that contains everything twice.
run.json stores a few examples for users of the served model.
"""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Generic

from absl import logging

from bert_tf.data import input_pipeline
from bert_tf.files import errors, paths
from bert_tf.formats import tables
from bert_tf.model_folder import run_info
from bert_tf.tasks import base, prediction

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


@dataclasses.dataclass
class Splits(Generic[base.Example]):
  """The splits that a run needs, with their records."""

  task: base.Task[base.Example]  # The run's task, with known labels.
  # The examples of the needed splits: "train", "dev" or "test".
  examples: Mapping[str, Sequence[base.Example]]
  sources: Mapping[str, str]  # The origin of each split, for the log.
  _records: dict[str, input_pipeline.RecordFiles] = dataclasses.field(
    default_factory=dict, init=False
  )

  def run_fields(self, max_examples: int) -> dict[str, Any]:
    """Returns fields of run_info.Examples: counts, and a few dev examples.

    The examples are short and different, one for each answer first. Only splits
    that the run needs have fields. If max_examples is 0, removes the examples
    that an earlier command stored.
    """
    fields: dict[str, Any] = {
      f"num_{split}": len(self.examples[split])
      for split in ("train", "dev")
      if split in self.examples
    }
    if "dev" not in self.examples:
      return fields if max_examples else fields | {"shown": None}
    first: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    seen: set[str] = set()
    for example in itertools.islice(self.examples["dev"], _MAX_READ):
      inputs, answer = self.task.inputs_and_answer(example)
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
    examples = (*first, *others)[:max_examples]
    return fields | {"shown": examples or None}

  def fingerprint(self, split: str) -> str:
    """Returns the number and a hash of a split's examples; "" without them."""
    digest, examples = hashlib.sha256(), self.examples.get(split, ())
    for example in examples:
      digest.update(json.dumps(self.task.inputs_and_answer(example)).encode())
    start = digest.hexdigest()[:8]
    return f"{len(examples)} examples with hash {start}" if examples else ""

  def summary(self, split: str, records: input_pipeline.RecordFiles) -> str:
    """Returns the log line of a split: its examples, labels and records."""
    examples = self.examples[split]
    parts = [
      f"{len(examples)} {split} examples",
      f"{records.num_records} records",
      self.task.describe_labels(examples),
    ]
    if records.num_cut is None:
      parts.append("it is not known how many are too long")
    else:
      fraction = records.num_cut / max(1, len(examples))
      parts.append(f"{records.num_cut} ({fraction:.0%}) too long")
    texts = (self.task.inputs_and_answer(example)[0] for example in examples)
    inputs = [json.dumps(values) for values in texts if values]
    if num_repeated := len(inputs) - len(set(inputs)):
      parts.append(f"{num_repeated} repeated")
    if num_dropped := len(getattr(examples, "dropped", ())):
      parts.append(f"{num_dropped} left out")
    if records.is_reused:
      parts.append("records of an earlier run")
    return f"{self.sources[split]}: {'; '.join(parts)}."

  def records(self, split: str, folder: str) -> input_pipeline.RecordFiles:
    """Returns the records of a split; on first use, writes and logs them."""
    if split not in self._records:
      path = os.path.join(folder, _RECORD_FILES[split])
      records = self.task.write_records(split, path, self.examples[split])
      logging.info("%s", self.summary(split, records))
      pairs = map(self.task.inputs_and_answer, self.examples[split])
      if empty := prediction.with_empty_text(texts for texts, _ in pairs):
        numbers = errors.join_names([str(i + 1) for i in empty], 5)
        logging.warning(
          f"{self.sources[split]}: a text is empty in example {numbers}."
        )
      self._records[split] = records
    return self._records[split]


def read(
  task: base.Task[base.Example],
  flags: Mapping[str, str],
  output_dir: str,
) -> Splits[base.Example]:
  """Reads the splits that a run needs; sets the task's labels if unknown.

  `flags` holds for each needed split the flag that asks for it.

  Raises:
    ValueError: for a missing or faulty file, or if the labels are not known.
  """
  files = {split: task.files[split] for split in flags}
  for split, (path, flag) in files.items():
    if not path:
      raise ValueError(
        f"`{flags[split]}` needs a {split} file. Set `{flag}`, or turn off "
        f"`{flags[split]}`."
      )
  sources = {split: path or "" for split, (path, _) in files.items()}
  for split, path in sources.items():
    if not paths.exists(path):
      raise ValueError(f"There is no {path}. Set `{files[split].flag}`.")
  examples: dict[str, list[base.Example]] = {}
  if task.has_labels and task.label_spec is None:
    source = task.files["train"].path
    if not source or not paths.exists(source):
      label_map = run_info.LABEL_MAP_FILE
      raise ValueError(
        f"The labels are not known, because {output_dir} has neither "
        f"{run_info.RUN_FILE} nor {label_map}, and there is no {source}. Copy "
        f"{label_map} from the run that trained the model into `output_dir`."
      )
    train = task.read("train", source)
    task.set_labels(train, source)
    if "train" in files:
      examples["train"] = train
  for split, source in sources.items():
    if split not in examples:
      examples[split] = task.read(split, source)
  return Splits(task, examples, sources)
