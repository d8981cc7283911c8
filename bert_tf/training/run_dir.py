"""What the folder of a run says about it: task, settings, vocabulary.

`run.json`, `bert_config.json` and `vocab.txt` stand in every output_dir, in
its `best/`, and in what is exported or converted from it.
"""

import dataclasses
import json
import os
import typing
from typing import Any

from absl import logging

import bert_tf
from bert_tf import checkpoints, modeling
from bert_tf.files import atomic, paths

RUN_FILE = "run.json"
CONFIG_FILE = "bert_config.json"
VOCAB_FILE = "vocab.txt"
LABEL_MAP_FILE = "label_map.json"

TASKS = (
  "pretraining",
  "classification",
  "squad",
  "ner",
  "swag",
  "encoder",
  "preprocessing",
)

# Fields that say what a run is, rather than how it was set.
_IDENTITY = ("task", "bert_tf_version")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunInfo:
  """What run.json says of a run; None where a field means nothing to its task.

  The fields have the names and meanings of the flags.

  Attributes:
    task: one of TASKS.
    labels: in the order of their ids.
    is_pair: whether the inputs are pairs of texts.
    bert_tf_version: version of the package that wrote it.
  """

  task: str
  do_lower_case: bool | None = None
  strip_accents: bool | None = None
  max_seq_length: int | None = None
  task_name: str | None = None
  problem_type: str | None = None
  labels: tuple[str, ...] | None = None
  is_pair: bool | None = None
  doc_stride: int | None = None
  max_query_length: int | None = None
  version_2_with_negative: bool | None = None
  null_score_diff_threshold: float | None = None
  n_best_size: int | None = None
  max_answer_length: int | None = None
  document_context: bool | None = None
  long_text: str | None = None
  feature_layers: str | None = None
  bert_tf_version: str = bert_tf.__version__

  def saved(self) -> dict[str, Any]:
    """Returns the settings that are known, by name, for `settings.settle`."""
    values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
    return {
      name: value
      for name, value in values.items()
      if value is not None and name not in _IDENTITY
    }


def prepare_output_dir(
  output_dir: str,
  info: RunInfo,
  bert_config: modeling.BertConfig,
  vocab_file: str | None,
) -> None:
  """Makes the folder of a run and writes what the run is, as `write_run`.

  Raises:
    ValueError: if the folder holds a run of another task, config or
      vocabulary, or no model can be built of the config.
    OSError: if it cannot be written.
  """
  bert_config.check_sizes()
  _check_same_run(output_dir, info, bert_config, vocab_file)
  write_run(output_dir, info, bert_config, vocab_file)


def write_run(
  folder: str,
  info: RunInfo,
  bert_config: modeling.BertConfig,
  vocab_file: str | None,
) -> None:
  """Writes run.json, bert_config.json and vocab.txt into a folder.

  The folder is made where it is missing. Each file is written whole; several
  processes that write the same run do not disturb one another.

  Args:
    folder: of a run, an export or a conversion.
    info: what run.json is to say.
    bert_config: the model's sizes.
    vocab_file: to copy; None where the run has none, as pre-training.
  """
  values = {"task": info.task, **info.saved()}
  values["bert_tf_version"] = info.bert_tf_version
  run_json = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
  if vocab_file is not None:
    content = paths.read_bytes(vocab_file)
    _write_if_new(os.path.join(folder, VOCAB_FILE), content)
  config_json = bert_config.to_json_string()
  _write_if_new(os.path.join(folder, CONFIG_FILE), config_json.encode())
  # Last: whoever finds run.json finds the others.
  _write_if_new(os.path.join(folder, RUN_FILE), run_json.encode())


def copy_run(folder: str, other_folder: str) -> None:
  """Copies what says what a run is, as far as it is there."""
  for name in (CONFIG_FILE, VOCAB_FILE, LABEL_MAP_FILE, RUN_FILE):
    path = os.path.join(folder, name)
    if paths.exists(path):
      _write_if_new(os.path.join(other_folder, name), paths.read_bytes(path))


def read_run(folder: str) -> RunInfo | None:
  """Returns what a folder's run.json says, None without one.

  Raises:
    ValueError: if the file is damaged, names no known task or has a value of
      a wrong type.
  """
  path = os.path.join(folder, RUN_FILE)
  if not paths.exists(path):
    return None
  try:
    values = json.loads(paths.read_text(path))
    if not isinstance(values, dict):
      raise ValueError("not a JSON object.")
    return _run_info(values)
  except ValueError as error:
    raise ValueError(f"{path} does not describe a run: {error}") from error


def read_run_of_task(output_dir: str, task: str) -> RunInfo | None:
  """Returns what run.json says of a run of this task, None without one.

  Raises:
    ValueError: as `read_run`, and if the folder holds a run of another task.
  """
  found = read_run(output_dir)
  if found and found.task != task:
    raise ValueError(
      f"{output_dir} holds another task's run, one of {found.task}; this is "
      f"one of {task}. Choose another --output_dir; its checkpoint can be the "
      "--init_checkpoint."
    )
  return found


def run_of(path: str | None) -> RunInfo | None:
  """Returns what is said of the run that a model comes from, None if nothing.

  Args:
    path: what --init_checkpoint takes: the prefix of a checkpoint or a folder
      (of a run, its best/, a SavedModel or a conversion); None for none.
  """
  return None if path is None else read_run(folder_of(path))


def folder_of(path: str) -> str:
  """Returns the folder whose run.json belongs to a checkpoint or a folder."""
  return path if paths.is_folder(path) else os.path.dirname(path) or "."


def _run_info(values: dict[str, Any]) -> RunInfo:
  """Returns the RunInfo of a JSON object; ValueError if it is none."""
  types = typing.get_type_hints(RunInfo)
  unknown = sorted(values.keys() - types.keys())
  if unknown:
    logging.info("Ignoring %s in %s.", ", ".join(unknown), RUN_FILE)
  known = {name: values[name] for name in types.keys() & values.keys()}
  if isinstance(known.get("labels"), list):
    known["labels"] = tuple(known["labels"])
  for name, value in known.items():
    if not _is_of_type(value, types[name]):
      raise ValueError(f"{name} is {json.dumps(value)}.")
  if known.get("task") not in TASKS:
    raise ValueError(
      f"task is {known.get('task')!r}, not one of {', '.join(TASKS)}."
    )
  return RunInfo(**known)


def _is_of_type(value: Any, expected: Any) -> bool:
  """Returns whether a JSON value fits one of RunInfo's types."""
  if isinstance(value, tuple):
    return tuple[str, ...] in typing.get_args(expected) and all(
      isinstance(item, str) for item in value
    )
  options = typing.get_args(expected) or (expected,)
  # A bool is an int to Python; a whole number is a float to JSON.
  is_whole = type(value) is int
  return type(value) in options or (is_whole and float in options)


def _write_if_new(path: str, content: bytes) -> None:
  """Writes a file, unless it holds this already."""
  if not paths.exists(path) or paths.read_bytes(path) != content:
    atomic.write_bytes(path, content)


def _check_same_run(
  output_dir: str,
  info: RunInfo,
  bert_config: modeling.BertConfig,
  vocab_file: str | None,
) -> None:
  """Raises ValueError if a folder holds a run of another kind."""
  read_run_of_task(output_dir, info.task)
  path = os.path.join(output_dir, CONFIG_FILE)
  if paths.exists(path):
    _check_same_config(path, bert_config)
  path = os.path.join(output_dir, VOCAB_FILE)
  if (
    vocab_file is not None
    and checkpoints.listed(output_dir)
    and paths.exists(path)
    and paths.read_bytes(path) != paths.read_bytes(vocab_file)
  ):
    raise ValueError(
      f"{output_dir} holds a run of another vocabulary: {path} differs from "
      f"{vocab_file}; choose another --output_dir."
    )


def _check_same_config(path: str, bert_config: modeling.BertConfig) -> None:
  """Raises ValueError naming the values that differ from a file's."""
  found = modeling.BertConfig.from_json_file(path).to_dict()
  given = bert_config.to_dict()
  differing = [
    f"{name} is {found.get(name)} there and {given.get(name)} here"
    for name in sorted({*found, *given})
    if found.get(name) != given.get(name)
  ]
  if differing:
    raise ValueError(
      f"{os.path.dirname(path)} holds a run of another config: "
      f"{'; '.join(differing)}; choose another --output_dir."
    )
