"""The splits of a run: their rows, their records and their log lines.

The log line of a split shows mistakes in valid data: labels that were misread,
texts that lose most of their words, or a file that contains everything twice.
run.json stores a few examples for users of the served model.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from bert_tf import distribution, modeling
from bert_tf.checkpoint import run_info
from bert_tf.data import input_pipeline, records
from bert_tf.files import messages, paths, tables
from bert_tf.model import model_inputs
from bert_tf.tasks import base, run
from bert_tf.tasks.rows import Row, with_empty_text
from bert_tf.text import unknown_pieces

# Maximum total length of an example's texts in run.json.
_MAX_CHARACTERS = 1000
# Maximum number of examples to consider for run.json.
_MAX_READ = 300
# Number of rows of each split whose word pieces are logged.
_NUM_LOGGED = 2


@dataclasses.dataclass(frozen=True)
class Split:
  """The rows of a split, and what they were read from, for the log."""

  name: str  # "train", "dev" or "test".
  rows: Sequence[Row]
  source: str

  def fingerprint(self) -> str:
    """Returns the number and a hash of the rows."""
    digest = hashlib.sha256()
    for row in self.rows:
      digest.update(json.dumps(row).encode())
    return f"{len(self.rows)} examples with hash {digest.hexdigest()[:8]}"


def read_splits(
  task: base.TaskT, output_dir: str
) -> tuple[base.TaskT, dict[str, Split]]:
  """Reads the splits that the steps of the task's config need.

  Returns:
    The task, with labels, and the splits by name.

  Raises:
    ValueError: for a missing or faulty file, or if the labels are not known.
  """
  config = task.config
  flags = {}  # The flag that asks for each split.
  if config.do_train:
    flags["train"] = "do_train"
    if config.train.eval_every_steps > 0:
      flags["dev"] = "eval_every_steps"
  if config.do_eval:
    flags["dev"] = "do_eval"
  if config.do_predict:
    flags[task.predicted_split] = "do_predict"
  for split, step in flags.items():
    path, flag = task.files[split]
    if not path:
      raise ValueError(
        f"`{step}` needs a {split} file. Set `{flag}`, or turn off `{step}`."
      )
    if not paths.exists(path):
      raise ValueError(f"There is no {path}. Set `{flag}`.")
  names = [*flags]
  if task.spec.label_defaults and task.labels is None:
    source = task.files["train"].path
    if not source or not paths.exists(source):
      label_map = run_info.LABEL_MAP_FILE
      raise ValueError(
        f"The labels are not known, because {output_dir} has neither "
        f"{run_info.RUN_FILE} nor {label_map}, and there is no {source}. Copy "
        f"{label_map} from the run that trained the model into `output_dir`."
      )
    names = ["train", *(name for name in flags if name != "train")]
  splits = {}
  for name in names:
    path = task.files[name].path or ""
    splits[name] = Split(name, task.read(name), path)
    task = task.infer(splits[name].rows, path)
  return task, {name: splits[name] for name in flags}


def encode(
  task: base.Task, split: Split, folder: str, bert_config: modeling.BertConfig
) -> run.Data:
  """Writes the records of a split to a folder, and logs what they hold.

  Raises ValueError if `bert_config` does not allow a value in them.
  """
  name = {"train": "train", "dev": "eval", "test": "predict"}[split.name]
  path = os.path.join(folder, f"{name}.tf_record")
  counts = unknown_pieces.PieceCounts(task.tokenizer, split.source)
  # If no row needs the model, there is no record.
  ids = tf.io.FixedLenFeature([task.max_seq_length], tf.int64)
  spec = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
  num_cut, rows = 0, split.rows
  if split.name == "train":
    rows = task.prepare_for_training(rows)
  with records.open_writer([path]) as writer:
    for index, (row, inputs) in enumerate(zip(rows, task.preprocess(rows))):
      num_cut += inputs.is_cut
      if index < _NUM_LOGGED:
        for sequence in inputs.sequences:
          pieces = task.tokenizer.convert_ids_to_tokens(sequence.input_ids)
          label = row.get("label")
          arrow = "" if label is None else f" -> {label}"
          logging.info("%s%s", " ".join(pieces), arrow)
      groups = [[sequence] for sequence in inputs.sequences]
      if inputs.is_one_record:
        groups = [[*inputs.sequences]]
      for group, targets in zip(groups, task.targets(row, inputs)):
        arrays = base.batch(group, task.max_seq_length)
        if not inputs.is_one_record:
          arrays = {name: values[0] for name, values in arrays.items()}
        record = {**targets, **arrays}
        counts.add_ids(record["input_ids"].ravel().tolist())
        model_inputs.check_values(record, bert_config)
        ints: dict[str, list[int]] = {}
        floats: dict[str, list[float]] = {}
        for name, values in record.items():
          is_float = values.dtype.kind == "f"
          stored: Any = floats if is_float else ints
          stored[name] = values.ravel().tolist()
          dtype = tf.float32 if is_float else tf.int64
          if not writer.num_written and name not in task.unread_features:
            spec[name] = tf.io.FixedLenFeature(values.shape, dtype)
        writer.write(records.encode_example(ints, floats))
  files = input_pipeline.RecordFiles((path,), writer.num_written)
  logging.info(
    "%s", summarize(task, split, writer.num_written, num_cut, counts)
  )
  texts = (task.inputs_of(row) for row in split.rows)
  if empty := with_empty_text(texts):
    numbers = messages.join_names([str(i + 1) for i in empty], 5)
    logging.warning(f"{split.source}: a text is empty in example {numbers}.")

  def cut_padding(batches: tf.data.Dataset, *_: int) -> tf.data.Dataset:
    if task.width:
      return batches
    return input_pipeline.cut_padding(
      batches,
      task.max_seq_length,
      task.position_features,
      # Whether XLA compiles a program for each width.
      bool(task.config.train.use_xla) or distribution.has_accelerator(),
    )

  return run.read_records(
    task.config, bert_config, files, spec, cut_padding, split.rows
  )


def summarize(
  task: base.Task,
  split: Split,
  num_records: int,
  num_cut: int,
  counts: unknown_pieces.PieceCounts,
) -> str:
  """Returns the log line of a split: its rows, labels and records."""
  rows = split.rows
  parts = [
    f"{len(rows)} {split.name} examples",
    f"{num_records} records",
    task.describe_labels(rows),
    f"{num_cut} ({num_cut / max(1, len(rows)):.0%}) too long",
    f"{counts.unknown_fraction:.1%} [UNK]",
  ]
  texts = map(task.inputs_of, rows)
  inputs = [json.dumps(values) for values in texts if values]
  if num_repeated := len(inputs) - len(set(inputs)):
    parts.append(f"{num_repeated} repeated")
  return f"{split.source}: {'; '.join(parts)}."


def describe_examples(
  task: base.Task, splits: Mapping[str, Split], max_examples: int
) -> dict[str, Any]:
  """Returns what is new in run_info.Examples, by field."""
  examples: dict[str, Any] = {
    f"num_{name}": len(splits[name].rows)
    for name in ("train", "dev")
    if name in splits
  }
  if "dev" in splits or not max_examples:
    rows = splits["dev"].rows if "dev" in splits else ()
    shown = choose_examples(task, rows, max_examples)
    examples["shown"] = shown or None
    if shown:
      logging.info(
        f"run.json keeps {len(shown)} dev texts as examples for the server's "
        "page; `num_run_examples=0` leaves them out."
      )
  return examples


def choose_examples(
  task: base.Task, rows: Sequence[Row], max_examples: int
) -> tuple[dict[str, Any], ...]:
  """Returns a few rows for run.json, as `inputs` and `answer`.

  They are short and different, one for each answer first.
  """
  examples: dict[str, dict[str, Any]] = {}
  for row in rows[:_MAX_READ]:
    inputs, answer = task.inputs_of(row), row.get("label")
    example = {"inputs": inputs, "answer": answer}
    num_characters = sum(len("".join(text)) for text in inputs.values())
    # Served models reject a text that is not Unicode.
    is_unicode = tables.is_unicode(json.dumps(example, ensure_ascii=False))
    if inputs and num_characters <= _MAX_CHARACTERS and is_unicode:
      examples.setdefault(json.dumps(inputs), example)
  firsts = {json.dumps(e["answer"]): e for e in reversed(examples.values())}
  chosen = sorted(examples.values(), key=lambda e: e not in firsts.values())
  return tuple(chosen[:max_examples])
