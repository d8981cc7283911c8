"""The splits of a run: their rows, their records and their log lines.

The log line of a split shows mistakes in valid data: labels that were misread,
texts that lose most of their words, or a file that contains everything twice.
run.json stores a few examples for users of the served model.
"""

import dataclasses
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from bert_tf.checkpoint import run_info
from bert_tf.data import input_pipeline, padding, records
from bert_tf.files import messages, paths, tables
from bert_tf.model import model_inputs
from bert_tf.tasks import base, run
from bert_tf.tasks.rows import Row, with_empty_text
from bert_tf.text import unknown_pieces
from bert_tf.training import compilation

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
# Number of rows of each split whose word pieces are logged.
_NUM_LOGGED = 2

# The features of a record, one for each row that became one.
Record = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Split:
  """The rows of a split, and what they were read from, for the log."""

  name: str  # "train", "dev" or "test".
  rows: Sequence[Row]
  source: str


def read(
  task: base.TaskT, flags: Mapping[str, str], output_dir: str
) -> tuple[base.TaskT, dict[str, Split]]:
  """Reads the splits that a run needs.

  `flags` holds for each needed split the flag that asks for it.

  Returns:
    The task, with labels, and the splits by name.

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
  for path, flag in files.values():
    if not paths.exists(path or ""):
      raise ValueError(f"There is no {path}. Set `{flag}`.")
  splits: dict[str, Split] = {}
  if task.spec.label_defaults and task.labels is None:
    source = task.files["train"].path
    if not source or not paths.exists(source):
      label_map = run_info.LABEL_MAP_FILE
      raise ValueError(
        f"The labels are not known, because {output_dir} has neither "
        f"{run_info.RUN_FILE} nor {label_map}, and there is no {source}. Copy "
        f"{label_map} from the run that trained the model into `output_dir`."
      )
    train = Split("train", task.read("train"), source)
    task = task.infer(train.rows, source)
    if "train" in files:
      splits["train"] = train
  for name, (path, _) in files.items():
    if name not in splits:
      splits[name] = Split(name, task.read(name), path or "")
      task = task.infer(splits[name].rows, path or "")
  return task, {name: splits[name] for name in files}


def encode(
  setup: base.Setup, task: base.Task, split: Split, folder: str
) -> run.Data:
  """Writes the records of a split to a folder, and logs what they hold.

  Records of an earlier run stay if they were made of equal rows and settings.
  """
  path = os.path.join(folder, _RECORD_FILES[split.name])
  counts = unknown_pieces.PieceCounts(task.tokenizer, split.source)

  def write_all(writer: records.RecordWriter) -> int:
    num_cut = 0
    for row_records, is_cut in _encode_rows(task, split, _NUM_LOGGED):
      num_cut += is_cut
      for record in row_records:
        counts.add_ids(record["input_ids"].ravel().tolist())
        model_inputs.check_values(record, setup.bert_config)
        writer.write(_serialize(record))
    return num_cut

  if task.reuses_records:
    files = records.write_or_reuse(path, _record_key(task, split), write_all)
  else:
    with records.open_writer([path]) as writer:
      num_cut = write_all(writer)
    files = input_pipeline.RecordFiles((path,), writer.num_written, num_cut)
  logging.info("%s", summarize(task, split, files, counts))
  texts = (task.inputs_of(row) for row in split.rows)
  if empty := with_empty_text(texts):
    numbers = messages.join_names([str(i + 1) for i in empty], 5)
    logging.warning(f"{split.source}: a text is empty in example {numbers}.")

  def cut_padding(batches: tf.data.Dataset) -> tf.data.Dataset:
    if task.width:
      return batches
    return padding.cut_padding(
      batches,
      task.max_seq_length,
      task.position_features,
      compilation.compiles_each_width(setup.config.train.use_xla),
    )

  return make_data(setup, split, files, _find_spec(task, split), cut_padding)


def make_data(
  setup: base.Setup,
  split: Split,
  files: input_pipeline.RecordFiles,
  spec: input_pipeline.Spec,
  finish: Callable[[tf.data.Dataset], tf.data.Dataset],
) -> run.Data:
  """Returns the data of records; `finish` makes batches for the model."""
  train, vocab_size = setup.config.train, setup.bert_config.vocab_size

  def training(steps_done: int) -> tf.data.Dataset:
    return finish(
      input_pipeline.training_dataset(
        files,
        spec,
        train.train_batch_size,
        train.seed,
        steps_done,
        vocab_size,
        setup.config.group_by_length,
      )
    )

  def evaluation(batch_size: int) -> tf.data.Dataset:
    return finish(
      input_pipeline.finite_dataset(files, spec, batch_size, vocab_size)
    )

  return run.Data(spec, files.num_records, training, evaluation, split.rows)


def _encode_rows(
  task: base.Task, split: Split, num_logged: int
) -> Iterator[tuple[list[Record], bool]]:
  """Yields the records of each row, and whether it is too long."""
  rows = split.rows
  if split.name == "train":
    rows = task.order_for_training(rows)
  for index, (row, inputs) in enumerate(zip(rows, task.preprocess(rows))):
    if index < num_logged:
      for sequence in inputs.sequences:
        pieces = task.tokenizer.convert_ids_to_tokens(sequence.input_ids)
        label = row.get("label")
        arrow = "" if label is None else f" -> {label}"
        logging.info("%s%s", " ".join(pieces), arrow)
    groups = [[sequence] for sequence in inputs.sequences]
    if inputs.is_one_record:
      groups = [[*inputs.sequences]]
    row_records: list[Record] = []
    for group, targets in zip(groups, task.targets(row, inputs)):
      features: dict[str, np.ndarray] = dict(targets)
      arrays = base.batch(group, task.max_seq_length)
      for name, values in arrays.items():
        features[name] = values if inputs.is_one_record else values[0]
      row_records.append(features)
    yield row_records, inputs.is_cut


def _serialize(record: Record) -> bytes:
  ints: dict[str, list[int]] = {}
  floats: dict[str, list[float]] = {}
  for name, values in record.items():
    if values.dtype.kind == "f":
      floats[name] = values.ravel().tolist()
    else:
      ints[name] = values.ravel().tolist()
  return records.encode_example(ints, floats)


def _find_spec(task: base.Task, split: Split) -> input_pipeline.Spec:
  """The spec of the records' features: that of the first record."""
  encoded = _encode_rows(task, split, num_logged=0)
  first = next((record for row, _ in encoded for record in row), None)
  if first is None:  # No row needs the model.
    ids = tf.io.FixedLenFeature([task.max_seq_length], tf.int64)
    return dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
  return {
    name: tf.io.FixedLenFeature(
      values.shape, tf.float32 if values.dtype.kind == "f" else tf.int64
    )
    for name, values in first.items()
    if name not in task.unread_features
  }


def _record_key(task: base.Task, split: Split) -> dict[str, Any]:
  """Returns what the records of a split depend on, as JSON values."""
  return {
    "rows": records.hash_json([*split.rows]),
    "settings": dataclasses.asdict(task.settings),
    "labels": task.labels and task.labels.label_map(),
    **records.tokenizer_settings(task.tokenizer),
  }


def summarize(
  task: base.Task,
  split: Split,
  files: input_pipeline.RecordFiles,
  counts: unknown_pieces.PieceCounts,
) -> str:
  """Returns the log line of a split: its rows, labels and records."""
  rows = split.rows
  parts = [
    f"{len(rows)} {split.name} examples",
    f"{files.num_records} records",
    task.describe_labels(rows),
  ]
  if files.num_cut is None:
    parts.append("it is not known how many are too long")
  else:
    fraction = files.num_cut / max(1, len(rows))
    parts.append(f"{files.num_cut} ({fraction:.0%}) too long")
  if counts.num_pieces:  # Not of records that were reused.
    parts.append(f"{counts.unknown_fraction:.1%} [UNK]")
  texts = map(task.inputs_of, rows)
  inputs = [json.dumps(values) for values in texts if values]
  if num_repeated := len(inputs) - len(set(inputs)):
    parts.append(f"{num_repeated} repeated")
  if files.is_reused:
    parts.append("records of an earlier run")
  return f"{split.source}: {'; '.join(parts)}."


def fingerprint(split: Split | None) -> str:
  """Returns the number and a hash of a split's rows; "" without a split."""
  if split is None:
    return ""
  digest = hashlib.sha256()
  for row in split.rows:
    digest.update(json.dumps(row).encode())
  return f"{len(split.rows)} examples with hash {digest.hexdigest()[:8]}"


def choose_examples(
  task: base.Task, split: Split, max_examples: int
) -> tuple[dict[str, Any], ...]:
  """Returns a few rows of a split for run.json, as `inputs` and `answer`.

  They are short and different, one for each answer first.
  """
  first: list[dict[str, Any]] = []
  others: list[dict[str, Any]] = []
  seen: set[str] = set()
  for row in itertools.islice(split.rows, _MAX_READ):
    inputs, answer = task.inputs_of(row), row.get("label")
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
  return (*first, *others)[:max_examples]
