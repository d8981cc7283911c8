"""What a run leaves besides checkpoints: its commands, scores, predictions."""

import datetime
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
from bert_tf.files import atomic, json_files
from bert_tf.model_folder import run_info
from bert_tf.training import config as training_config


def add_command(output_dir: str, config: settings.Dataclass) -> None:
  """Adds this process's command to commands.jsonl; only the chief writes."""
  if not distribution.is_chief():
    return
  entry = {
    "time": datetime.datetime.now().astimezone().isoformat("T", "seconds"),
    "command": f"{sys.argv[0]} {shlex.join(sys.argv[1:])}",
    "settings": settings.values(config),
    "versions": {
      "bert_tf": bert_tf.__version__,
      "tensorflow": tf.__version__,
      "keras": keras.__version__,
      "numpy": np.__version__,
      "python": platform.python_version(),
    },
  }
  run_info.add_command(output_dir, entry)


def arithmetic_fields(
  config: training_config.TrainConfig,
  info: run_info.RunInfo | None,
  do_train: bool,
) -> dict[str, Any]:
  """Returns the fields of run.json for the arithmetic of the last training.

  A run may be resumed with another arithmetic, which the log then names.
  """
  fields = {}
  for name in ("precision", "deterministic"):
    before, now = getattr(info, name, None), getattr(config, name)
    fields[name] = now if do_train else before
    if do_train and before not in (None, now):
      logging.info(
        "This run was trained with %s=%s and continues with %s.",
        *(name, before, now),
      )
  return fields


def write_results(
  path: str, results: Mapping[str, float | int], first: Sequence[str] = ()
) -> None:
  """Writes and logs `key = value` lines, sorted by name; `first` come first."""
  lines = []
  for name in sorted(results, key=lambda name: (name not in first, name)):
    value = results[name]
    # Prints the digits of a float32, as the original does.
    text = str(value) if isinstance(value, int) else str(np.float32(value))
    lines.append(f"{name} = {text}")
    logging.info("  %s = %s", name, text)
  write_lines(path, lines)


def write_probabilities(
  output_dir: str, probabilities: np.ndarray, objects: Iterable[Any]
) -> None:
  """Writes test_results.tsv and predictions.jsonl.

  `probabilities` are [examples, classes]; `objects` are JSON values.
  """
  write_lines(
    os.path.join(output_dir, "test_results.tsv"),
    ("\t".join(map(str, row)) for row in probabilities),
  )
  write_lines(
    os.path.join(output_dir, "predictions.jsonl"),
    map(json_files.encode, objects),
  )


def write_lines(path: str, lines: Iterable[str]) -> None:
  """Writes lines to a file and logs its path."""
  atomic.write_lines(path, lines)
  logging.info("Wrote %s.", path)
