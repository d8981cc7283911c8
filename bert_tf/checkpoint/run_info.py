"""Reads and writes the files that describe a run, and defines labels.

Every output_dir, its `best/`, and every export and conversion of its model has
`run.json`, `bert_config.json`, and if known `label_map.json` and `vocab.txt`.
"""

import contextlib
import dataclasses
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import bert_tf
from bert_tf import task_registry
from bert_tf.files import atomic, json_files, messages, paths, tokenizer_files

if typing.TYPE_CHECKING:  # Importing model_config imports Keras.
  from bert_tf.model import model_config

RUN_FILE = "run.json"
CONFIG_FILE = "bert_config.json"
VOCAB_FILE = tokenizer_files.VOCAB_FILE
LABEL_MAP_FILE = "label_map.json"
# Holds a line for each command that ran in a folder.
COMMANDS_FILE = "commands.jsonl"
# run.json is written last, so if it exists, the other files do too.
FILES = (CONFIG_FILE, VOCAB_FILE, LABEL_MAP_FILE, RUN_FILE)

# The meaning of a classifier's outputs: one of several classes, a number, a yes
# or no for each label, or the relevance of a text to a query, from 0 to 1.
PROBLEM_TYPES = ("classification", "regression", "multilabel", "ranking")
CLASSIFICATION, REGRESSION, MULTILABEL, RANKING = PROBLEM_TYPES
NUMBERS = (REGRESSION, RANKING)  # Those with one output and no labels.
# The problem type of a model that labels the words of texts, not the texts.
WORDS = "words"


@dataclasses.dataclass(frozen=True)
class LabelSpec:
  """The labels of a model that classifies texts or words."""

  task_name: str  # As the task's authors write it.
  problem_type: str  # One of PROBLEM_TYPES, or WORDS.
  labels: tuple[str, ...]  # In the order of their ids; () for numbers.
  # False if the labels came from Python as numbers or booleans. `labels` then
  # holds their JSON. `==` ignores it.
  are_text: bool = dataclasses.field(default=True, compare=False)
  # What the user can do if data have other labels, for messages.
  hint: str = dataclasses.field(default="", compare=False)

  def __post_init__(self) -> None:
    """Raises ValueError for labels that are not names."""
    known = (*PROBLEM_TYPES, WORDS)
    if self.problem_type not in known:
      raise ValueError(
        f"problem_type {self.problem_type!r} is not one of {', '.join(known)}."
      )
    if len({*self.labels, ""}) <= len(self.labels):
      raise ValueError(f"labels {[*self.labels]} are empty or repeated.")

  @property
  def num_outputs(self) -> int:
    """C, the number of outputs: one for each label, or 1 for numbers."""
    return 1 if self.problem_type in NUMBERS else len(self.labels)

  def unknown_label(self, label: object) -> str:
    """Returns the message for a label that is not one of them."""
    known = messages.join_names(self.labels)
    return f"label {label!r} is not one of {known}{self.hint}"

  def label_map(self) -> dict[str, Any]:
    """Returns the content of label_map.json; a label's id is its index."""
    return {
      "task_name": self.task_name,
      "problem_type": self.problem_type,
      "labels": list(self.labels),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
  """How weights were trained; None for what is not known or does not apply."""

  # The weight of each label in the loss of the last training.
  class_weights: tuple[float, ...] | None = None
  lora_rank: int | None = None
  lora_alpha: float | None = None
  # The number of steps that fills train_minutes, in a run with such a time.
  num_train_steps: int | None = None
  train_minutes: float | None = None
  # The number of training steps of an exported checkpoint.
  global_step: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examples:
  """The numbers of examples of a run; None for a split that it did not read."""

  num_train: int | None = None
  num_dev: int | None = None
  # A few examples of the dev file: `inputs` holds texts by the names of the
  # served model's inputs, `answer` is the label or answer in the file.
  shown: tuple[dict[str, Any], ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunInfo:
  """The content of run.json: what a model is, and how it was trained."""

  task: str  # One of task_registry.TASKS, unless the task is not registered.
  # The settings of the task, an instance of `task_registry.settings_class`.
  # None in a field stands for a value that is not known.
  settings: Any = None
  labels: LabelSpec | None = None  # None for a task without labels.
  training: Training = Training()
  examples: Examples = Examples()
  # Results of the newest checkpoint on the dev file.
  scores: dict[str, float] = dataclasses.field(default_factory=dict)
  # Version of the package that wrote the file.
  bert_tf_version: str = bert_tf.__version__

  @property
  def temperature(self) -> float:
    """What calibrated answers divide the logits by; 1 without calibration."""
    return self.scores.get("temperature", 1.0)

  def __post_init__(self) -> None:
    """Makes `settings` an instance of exactly the task's class."""
    settings = task_registry.settings_class(self.task)
    names = {field.name for field in dataclasses.fields(settings)}
    known = {n: v for n, v in _known(self.settings).items() if n in names}
    object.__setattr__(self, "settings", settings(**known))

  def to_dict(self) -> dict[str, Any]:
    """Returns the object in run.json: the parts that are not empty."""
    labels = self.labels.label_map() if self.labels else {}
    if self.labels and not self.labels.are_text:
      labels["are_text"] = False
    parts = {**vars(self), "labels": labels}
    for name in ("settings", "training", "examples"):
      parts[name] = _known(parts[name])
    return {name: value for name, value in parts.items() if value}


def _known(part: Any) -> dict[str, Any]:
  return {n: v for n, v in vars(part).items() if v is not None} if part else {}


def read_run(folder: str) -> RunInfo | None:
  """Returns the content of a folder's run.json, None without one.

  Raises:
    ValueError: if the file is damaged or has a value that is not allowed.
  """
  path = os.path.join(folder, RUN_FILE)
  if not paths.exists(path):
    return None
  values = json_files.read_object(path)
  kind = task_registry.settings_class(str(values.get("task")))
  settings = json_files.check(values.get("settings", {}), kind, path)
  return json_files.check(values | {"settings": settings}, RunInfo, path)


def describe(
  info: RunInfo, bert_config: "model_config.BertConfig", vocab: bytes | None
) -> dict[str, bytes]:
  """Returns the contents of the files that describe a run, by name.

  `vocab` is the content of vocab.txt. Without it or labels, their file is left
  out.
  """
  contents = {} if vocab is None else {VOCAB_FILE: vocab}
  contents[CONFIG_FILE] = bert_config.to_json_string().encode()
  if info.labels:
    contents[LABEL_MAP_FILE] = json_files.encode_file(info.labels.label_map())
  return {**contents, RUN_FILE: json_files.encode_file(info.to_dict())}


def read_files(folder: str) -> dict[str, bytes]:
  """Returns the contents of the FILES that a folder has, by name."""
  places = {name: os.path.join(folder, name) for name in FILES}
  return {n: paths.read_bytes(p) for n, p in places.items() if paths.exists(p)}


def write_files(folder: str, contents: Mapping[str, bytes]) -> None:
  """Writes files in the given order, except those that have this content.

  Each is replaced atomically, so several processes may write a run.
  """
  for name, content in contents.items():
    path = os.path.join(folder, name)
    if not paths.exists(path) or paths.read_bytes(path) != content:
      atomic.write_bytes(path, content)


def check_own_files(folder: str, own: Sequence[str]) -> None:
  """Raises ValueError if a folder has files whose names do not begin so."""
  names = paths.list_folder(folder) if paths.exists(folder) else []
  if others := [name for name in names if not name.startswith((*own, "."))]:
    raise ValueError(
      f"{folder} holds other files, such as {others[0]}. Choose another folder."
    )


def write_json(folder: str, info: RunInfo) -> None:
  """Writes run.json."""
  content = json_files.encode_file(info.to_dict())
  atomic.write_bytes(os.path.join(folder, RUN_FILE), content)


def read_labels(folder: str) -> LabelSpec | None:
  """Returns the labels in a folder's label_map.json, None without one.

  Raises:
    ValueError: if the file is not a label map.
  """
  path = os.path.join(folder, LABEL_MAP_FILE)
  return json_files.read(path, LabelSpec) if paths.exists(path) else None


def add_command(folder: str, entry: Mapping[str, Any]) -> None:
  """Adds a command to commands.jsonl."""
  path = os.path.join(folder, COMMANDS_FILE)
  earlier = paths.read_bytes(path) if paths.exists(path) else b""
  line = json_files.encode(entry, default=str)
  atomic.write_bytes(path, earlier + line.encode() + b"\n")


def read_commands(folder: str) -> list[dict[str, Any]]:
  """Returns the entries of commands.jsonl; [] if it is damaged or missing."""
  path = os.path.join(folder, COMMANDS_FILE)
  lines = paths.read_bytes(path).splitlines() if paths.exists(path) else []
  with contextlib.suppress(ValueError):
    commands = [json_files.parse(line, path) for line in lines]
    return json_files.check(commands, list[dict[str, Any]], path)
  return []


def check_vocab(folder: str, vocab_file: str | None) -> None:
  """Raises ValueError if a folder has a vocab.txt with other content."""
  own = os.path.join(folder, VOCAB_FILE)
  if vocab_file is None or vocab_file == own or not paths.exists(own):
    return
  if paths.read_bytes(own) != tokenizer_files.read_vocab(vocab_file):
    raise ValueError(
      f"vocab_file {vocab_file} contradicts {own}. Leave it out, or choose "
      "another model or `output_dir`."
    )


def get_folder(path: str) -> str:
  """Returns the folder whose run.json belongs to a checkpoint or a folder."""
  # The file system ram:// takes a common prefix of file names for a folder.
  is_folder = paths.is_folder(path) and not paths.exists(f"{path}.index")
  return path if is_folder else os.path.dirname(path) or "."
