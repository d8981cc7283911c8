"""Reads and writes the files that describe a run, run.json and those beside it.

`run.json`, `bert_config.json` and `vocab.txt` stand in every output_dir, in
its `best/`, and in exports and conversions of its model.
"""

import dataclasses
import json
import os
import typing
from collections.abc import Mapping
from typing import Any

from absl import logging

import bert_tf
from bert_tf.files import atomic, json_files, json_text, paths
from bert_tf.formats import tokenizer_files

if typing.TYPE_CHECKING:  # It needs Keras.
  from bert_tf import model_config

RUN_FILE = "run.json"
CONFIG_FILE = "bert_config.json"
VOCAB_FILE = tokenizer_files.VOCAB_FILE
LABEL_MAP_FILE = "label_map.json"
# Lists each command that ran in a folder.
COMMANDS_FILE = "commands.jsonl"
# run.json last: whoever finds it finds the others.
FILES = (CONFIG_FILE, VOCAB_FILE, LABEL_MAP_FILE, RUN_FILE)

TASKS = (
  "pretraining",
  "classification",
  "squad",
  "ner",
  "swag",
  "encoder",
  "preprocessing",
)

# The meaning of a classifier's outputs: one class of several, a number, or a
# yes or no for each label.
PROBLEM_TYPES = ("classification", "regression", "multilabel")
# The problem type of a model that labels the words of texts, not the texts.
WORDS = "words"

# Fields that identify a run, rather than its settings.
_IDENTITY = ("task", "bert_tf_version")
# Results of a run.
FINDINGS = ("num_train_examples", "num_dev_examples", "examples", "scores")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunInfo:
  """The content of run.json; None for a field that does not apply to the task.

  The fields have the names and meanings of the flags.
  """

  task: str  # One of TASKS.
  do_lower_case: bool | None = None
  strip_accents: bool | None = None
  max_seq_length: int | None = None
  task_name: str | None = None
  problem_type: str | None = None
  labels: tuple[str, ...] | None = None  # In the order of their ids.
  # False if they were given from Python as numbers, true or false, and are
  # written as JSON has them.
  labels_are_text: bool | None = None
  is_pair: bool | None = None  # Whether the inputs are pairs of texts.
  doc_stride: int | None = None
  max_query_length: int | None = None
  version_2_with_negative: bool | None = None
  null_score_diff_threshold: float | None = None
  n_best_size: int | None = None
  max_answer_length: int | None = None
  document_context: bool | None = None
  long_text: str | None = None
  feature_layers: str | None = None
  lora_rank: int | None = None
  lora_alpha: float | None = None
  # The objective of pre-training, None for masked pieces.
  objective: str | None = None
  num_train_examples: int | None = None
  num_dev_examples: int | None = None
  # A few examples of the dev file, each with `inputs`, texts as the served
  # model takes them by name, and `answer`, what the file has for it.
  examples: tuple[dict[str, Any], ...] | None = None
  # Results of the newest checkpoint on the dev file, if it was evaluated.
  scores: dict[str, float] | None = None
  # The number of training steps of an exported checkpoint.
  global_step: int | None = None
  # Version of the package that wrote it.
  bert_tf_version: str = bert_tf.__version__

  def saved(self) -> dict[str, Any]:
    """Returns the settings that are known, by name, for `settings.settle`."""
    values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
    return {
      name: value
      for name, value in values.items()
      if value is not None and name not in _IDENTITY
    }


def read_run(folder: str) -> RunInfo | None:
  """Returns the content of a folder's run.json, None without one.

  Raises:
    ValueError: if the file is damaged, names no known task or has a value of
      a wrong type.
  """
  path = os.path.join(folder, RUN_FILE)
  if not paths.exists(path):
    return None
  values = json_files.read_object(path)
  try:
    return from_json(values)
  except ValueError as error:
    raise ValueError(f"{path} does not describe a run: {error}") from error


def write_run(
  folder: str,
  info: RunInfo,
  bert_config: "model_config.BertConfig",
  vocab_file: str | None,
) -> None:
  """Writes run.json, bert_config.json and vocab.txt into a folder.

  A missing folder is made. Each file is written whole; several
  processes that write the same run do not disturb one another.
  """
  if vocab_file is not None:
    content = tokenizer_files.read_vocab(vocab_file)
    _write_if_new(os.path.join(folder, VOCAB_FILE), content)
  config_json = bert_config.to_json_string()
  _write_if_new(os.path.join(folder, CONFIG_FILE), config_json.encode())
  # Last: whoever finds run.json finds the others.
  write_json(folder, info)


def copy_run(folder: str, other_folder: str) -> None:
  """Copies the files that describe a run, if they exist."""
  for name in FILES:
    path = os.path.join(folder, name)
    if paths.exists(path):
      _write_if_new(os.path.join(other_folder, name), paths.read_bytes(path))


def write_json(folder: str, info: RunInfo) -> None:
  """Writes run.json, if it says something else."""
  values = {"task": info.task, **info.saved()}
  values["bert_tf_version"] = info.bert_tf_version
  run_json = json_text.encode(values, indent=2) + "\n"
  _write_if_new(os.path.join(folder, RUN_FILE), run_json.encode())


def _write_if_new(path: str, content: bytes) -> None:
  """Writes a file, unless it holds this already."""
  if not paths.exists(path) or paths.read_bytes(path) != content:
    atomic.write_bytes(path, content)


def folder_of(path: str) -> str:
  """Returns the folder whose run.json belongs to a checkpoint or a folder."""
  # ram:// takes the common start of files for a folder.
  is_folder = paths.is_folder(path) and not paths.exists(f"{path}.index")
  return path if is_folder else os.path.dirname(path) or "."


def from_json(values: dict[str, Any]) -> RunInfo:
  """Returns the RunInfo of a JSON object; ValueError for other values."""
  types = typing.get_type_hints(RunInfo)
  unknown = sorted(values.keys() - types.keys())
  if unknown:
    logging.info("Ignoring %s in %s.", ", ".join(unknown), RUN_FILE)
  known = {name: values[name] for name in types.keys() & values.keys()}
  for name in ("labels", "examples"):
    if isinstance(known.get(name), list):
      known[name] = tuple(known[name])
  for name, value in known.items():
    if not _is_of_type(value, types[name]):
      raise ValueError(f"{name} is {json.dumps(value)}.")
  kinds = (WORDS,) if known.get("task") == "ner" else PROBLEM_TYPES
  for name, allowed in (("task", TASKS), ("problem_type", kinds)):
    value = known.get(name)
    if value not in allowed and (name == "task" or value is not None):
      raise ValueError(f"{name} is {value!r}, not one of {', '.join(allowed)}.")
  _check_labels(known)
  return RunInfo(**known)


def _check_labels(known: Mapping[str, Any]) -> None:
  """Raises ValueError for labels that do not tell classes apart."""
  labels = known.get("labels") or ()
  twice = sorted({label for label in labels if labels.count(label) > 1})
  if twice or "" in labels:
    what = f"{twice[0]!r} twice" if twice else "an empty one"
    raise ValueError(f"labels has {what}; each names another class.")
  if known.get("labels_are_text") is False:
    for label in labels:
      json_files.parse(label, f"the label {label!r}")


def _is_of_type(value: Any, expected: Any) -> bool:
  """Returns whether a JSON value fits one of RunInfo's types."""
  options = typing.get_args(expected) or (expected,)
  if isinstance(value, tuple):
    if tuple[str, ...] in options:
      return all(isinstance(item, str) for item in value)
    return tuple[dict[str, Any], ...] in options and all(
      isinstance(item, dict) and isinstance(item.get("inputs"), dict)
      for item in value
    )
  if isinstance(value, dict):
    return dict[str, float] in options and all(
      type(item) in (int, float) for item in value.values()
    )
  # A bool is an int to Python; a whole number is a float to JSON.
  is_whole = type(value) is int
  return type(value) in options or (is_whole and float in options)
