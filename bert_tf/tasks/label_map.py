"""label_map.json: the task of a run's folder and its labels."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf import text_files
from bert_tf.tasks.examples import Task

FILE = "label_map.json"

# What it holds.
_KEYS = {"task_name", "problem_type", "labels"}

# The problem_type of a run that labels the words of texts; see tasks/ner.py.
WORDS = "words"


def read(output_dir: str) -> dict[str, Any] | None:
  """Returns what the file of a folder holds, None without one.

  Raises:
    ValueError: if it is no label map.
  """
  path = os.path.join(output_dir, FILE)
  if not tf.io.gfile.exists(path):
    return None
  with tf.io.gfile.GFile(path) as reader:
    text = reader.read()
  try:
    saved = json.loads(text)
  except ValueError:
    saved = None
  if not isinstance(saved, dict) or not saved.keys() >= _KEYS:
    raise ValueError(
      f"{path} is no label map; remove it or choose another --output_dir."
    )
  return saved


def with_saved_labels(task: Task, output_dir: str) -> Task:
  """Returns the task with the labels of the run, where they were not known.

  They stay unknown, None, if the folder has no label map.
  """
  saved = read(output_dir)
  if task.labels is not None or saved is None:
    return task
  return dataclasses.replace(task, labels=tuple(saved.get("labels", ())))


def load(output_dir: str) -> Task | None:
  """Returns the task of a run's folder without its files, None without one.

  Raises:
    ValueError: if the file is no label map, or that of another model
      than a classifier of texts.
  """
  saved = read(output_dir)
  if saved is None:
    return None
  if saved["problem_type"] == WORDS:
    raise ValueError(
      f"{output_dir} holds a model that labels words, not texts; use "
      "run_ner.py."
    )
  return task_of(saved)


def task_of(saved: Mapping[str, Any]) -> Task:
  """Returns the task, without its files, of what `read` returned."""
  return Task(
    saved["task_name"],
    tuple(saved["labels"]),
    metrics=(),
    train=None,
    dev=None,
    test=None,
    problem_type=saved["problem_type"],
  )


def check(output_dir: str, task: Task) -> None:
  """Raises ValueError if the folder holds a run of another task."""
  saved = read(output_dir)
  if saved not in (None, _label_map(task)):
    raise ValueError(
      f"{output_dir} holds another task's run: its {FILE} is "
      f"{json.dumps(saved)}, this run's {json.dumps(_label_map(task))}; choose "
      "another --output_dir. Its checkpoint can be the --init_checkpoint."
    )


def write(output_dir: str, task: Task) -> None:
  """Writes the label map; whole or not at all."""
  text = json.dumps(_label_map(task), indent=2, ensure_ascii=False)
  path = os.path.join(output_dir, FILE)
  text_files.write_lines(path, [text])


def _label_map(task: Task) -> dict[str, Any]:
  """Returns what the file holds; a label's id is its place in the list."""
  return {
    "task_name": task.name,
    "problem_type": task.problem_type,
    "labels": list(task.labels),
  }
