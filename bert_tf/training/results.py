"""What a run leaves besides checkpoints: its commands, scores, predictions."""

import datetime
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

import bert_tf
from bert_tf import distribution, settings
from bert_tf.checkpoint import checkpoints, run_info
from bert_tf.files import atomic, json_files


def add_command(
  output_dir: str, config: settings.Dataclass, train_data: str = ""
) -> None:
  """Adds this process's command to commands.jsonl; only the chief writes.

  `train_data` describes the training examples. Warns if the command resumes a
  run that began with others, or with other settings.
  """
  if not distribution.is_chief() or not atomic.can_write(output_dir):
    return
  values = settings.values(config)
  commands = run_info.read_commands(output_dir)
  resumes = bool(values.get("do_train")) and bool(
    checkpoints.list_checkpoints(output_dir)
  )
  began = [
    command
    for command in commands
    if command.get("settings", {}).get("do_train")
    and not command.get("resumes")
  ]
  if resumes and began:
    now = {"train_data": train_data, **settings.training_settings(config)}
    now = json.loads(json_files.encode(now, default=str))
    then = {**began[-1], **began[-1]["settings"]}
    differing = [
      f"`{name}={then[name]}`, now {value}"
      for name, value in now.items()
      if then.get(name, value) != value
    ]
    if differing:
      logging.warning(
        f"{output_dir} continues a run that began with {'; '.join(differing)}. "
        "Its steps count, so epochs and learning rate differ from a new run's."
      )
  entry = {
    "time": datetime.datetime.now().astimezone().isoformat("T", "seconds"),
    "command": f"{sys.argv[0]} {shlex.join(sys.argv[1:])}",
    "settings": values,
    "train_data": train_data,
    "resumes": resumes,
    "versions": {
      "bert_tf": bert_tf.__version__,
      "tensorflow": tf.__version__,
      "keras": keras.__version__,
      "numpy": np.__version__,
      "python": platform.python_version(),
    },
  }
  run_info.add_command(output_dir, entry)


def write_results(
  path: str, results: Mapping[str, float | int], first: Sequence[str] = ()
) -> None:
  """Writes and logs `key = value` lines, sorted by name; `first` come first.

  In a read-only folder, it warns instead of writing.
  """
  lines = []
  for name in sorted(results, key=lambda name: (name not in first, name)):
    value = results[name]
    # Prints the digits of a float32, as the original does.
    text = str(value) if isinstance(value, int) else str(np.float32(value))
    lines.append(f"{name} = {text}")
    logging.info("  %s = %s", name, text)
  if atomic.can_write(os.path.dirname(path)):
    write_lines(path, lines)
  else:
    logging.warning("%s is not written, since its folder is read-only.", path)


def write_probabilities(
  output_dir: str, objects: Sequence[Mapping[str, Any]]
) -> None:
  """Writes test_results.tsv and predictions.jsonl.

  The objects are JSON values with `probabilities`, a list or by name, or for
  the numbers of a regression only with `label`.
  """
  lines = []
  for value in objects:
    numbers = value.get("probabilities") or [value["label"]]
    if isinstance(numbers, Mapping):
      numbers = numbers.values()
    # Prints the digits of a float32, as the original does.
    lines.append("\t".join(str(np.float32(number)) for number in numbers))
  write_lines(os.path.join(output_dir, "test_results.tsv"), lines)
  write_lines(
    os.path.join(output_dir, "predictions.jsonl"),
    map(json_files.encode, objects),
  )


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes lines to a file and logs its path."""
  atomic.write_lines(path, lines)
  logging.info("Wrote %s.", path)
