"""label_map.json: the task of a run's folder and its labels."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bert_tf.files import atomic
from bert_tf.tasks.classification.examples import Task

FILE = "label_map.json"

# The problem_type of a run that labels the words of texts; see tasks/ner.py.
WORDS = "words"


def with_saved_labels(task: Task, output_dir: str) -> Task:
  """Returns the task with the labels of the run, where they were not known.

  They stay unknown, None, if the folder has no label map.
  """
  saved = _saved(output_dir)
  if task.labels is not None or saved is None:
    return task
  return dataclasses.replace(task, labels=tuple(saved.get("labels", ())))


def load(output_dir: str) -> Task | None:
  """Returns the task of a run's folder without its files, None without one.

  Raises:
    ValueError: if the file is no label map, or that of another model
      than a classifier of texts.
  """
  task = read(output_dir)
  if task is not None and task.problem_type == WORDS:
    raise ValueError(
      f"{output_dir} holds a model that labels words, not texts; use "
      "run_ner.py."
    )
  return task


def read(output_dir: str) -> Task | None:
  """As `load`, of models that label words too."""
  saved = _saved(output_dir)
  if saved is None:
    return None
  return without_files(
    saved["task_name"], saved["problem_type"], saved["labels"]
  )


def without_files(name: str, problem_type: str, labels: Sequence[str]) -> Task:
  """Returns a task of which no more is known than its labels."""
  return Task(
    name,
    tuple(labels),
    metrics=(),
    train=None,
    dev=None,
    test=None,
    problem_type=problem_type,
  )


def check(output_dir: str, task: Task) -> None:
  """Raises ValueError if the folder holds a run of another task."""
  saved = _saved(output_dir)
  if saved not in (None, _label_map(task)):
    raise ValueError(
      f"{output_dir} holds another task's run: its {FILE} is "
      f"{json.dumps(saved)}, this run's {json.dumps(_label_map(task))}; choose "
      "another --output_dir. Its checkpoint can be the --init_checkpoint."
    )


def write(output_dir: str, task: Task) -> None:
  """Writes the label map; whole or not at all."""
  atomic.write(os.path.join(output_dir, FILE), [to_text(task)])


def to_text(task: Task) -> str:
  """Returns what the file of a task holds."""
  return json.dumps(_label_map(task), indent=2, ensure_ascii=False) + "\n"


def _label_map(task: Task) -> dict[str, Any]:
  """Returns what the file holds; a label's id is its place in the list."""
  return {
    "task_name": task.name,
    "problem_type": task.problem_type,
    "labels": list(task.labels),
  }


def _saved(output_dir: str) -> dict[str, Any] | None:
  """Returns what the file holds, None without one."""
  path = os.path.join(output_dir, FILE)
  if not tf.io.gfile.exists(path):
    return None
  with tf.io.gfile.GFile(path) as reader:
    text = reader.read()
  try:
    saved = json.loads(text)
  except ValueError:
    saved = None
  keys = {"task_name", "problem_type", "labels"}
  if not isinstance(saved, dict) or not keys <= saved.keys():
    raise ValueError(
      f"{path} is no label map; remove it or choose another --output_dir."
    )
  return saved
