"""The log of commands in a run's folder, with settings and versions."""

import dataclasses
import datetime
import os
import platform
import shlex
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

import bert_tf
from bert_tf import distribution, settings
from bert_tf.files import atomic, json_files, json_text, paths
from bert_tf.model_folder import run_info
from bert_tf.training import progress

FILE = run_info.COMMANDS_FILE


def add(output_dir: str, config: settings.Dataclass) -> None:
  """Adds this command to commands.jsonl and to TensorBoard.

  TensorBoard shows it under text and hparams.

  Raises:
    OSError: if a file cannot be written.
  """
  if not distribution.is_chief():
    return
  values = _flat(config)
  entry = {
    "time": datetime.datetime.now().astimezone().isoformat("T", "seconds"),
    "command": f"{sys.argv[0]} {shlex.join(sys.argv[1:])}",
    "settings": values,
    "versions": {
      "bert_tf": bert_tf.__version__,
      "tensorflow": tf.__version__,
      "keras": keras.__version__,
      "numpy": np.__version__,
      "python": platform.python_version(),
    },
  }
  path = os.path.join(output_dir, FILE)
  earlier = paths.read_bytes(path) if paths.exists(path) else b""
  lines = earlier.splitlines()
  line = json_text.encode(entry, default=str)
  atomic.write_bytes(path, b"\n".join([*lines, line.encode(), b""]))
  writer = progress.events_writer(output_dir)
  with writer.as_default(len(lines)):
    text = json_text.encode(entry, indent=2, default=str)
    tf.summary.text("command", f"```\n{text}\n```")
    kinds = (bool, int, float, str)
    hparams.hparams({k: v for k, v in values.items() if isinstance(v, kinds)})
  writer.close()


def training_settings(output_dir: str) -> dict[str, Any]:
  """Returns the settings of the last command that trained; {} without one."""
  path = os.path.join(output_dir, FILE)
  lines = paths.read_bytes(path).splitlines() if paths.exists(path) else []
  for number in range(len(lines), 0, -1):
    where = f"{path}, line {number}"
    # A setting may be infinite.
    entry = json_files.parse(lines[number - 1], where, allows_nan=True)
    types = {"settings": dict}
    json_files.check_object(entry, where, types, required=("settings",))
    if entry["settings"].get("do_train"):
      return entry["settings"]
  return {}


def _flat(config: settings.Dataclass) -> dict[str, Any]:
  """Returns the values of all settings, including nested configs."""
  values: dict[str, Any] = {}
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    if hasattr(value, "__dataclass_fields__"):
      values |= _flat(value)
    else:
      values[field.name] = value
  return values
