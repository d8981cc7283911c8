"""The log of commands in a run's folder, with settings and versions."""

import datetime
import platform
import shlex
import sys

import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

import bert_tf
from bert_tf import distribution, settings
from bert_tf.files import json_files
from bert_tf.model_folder import run_info
from bert_tf.training import progress


def add(output_dir: str, config: settings.Dataclass) -> None:
  """Adds this process's command to commands.jsonl and to TensorBoard.

  TensorBoard shows it under text and hparams. Only the chief writes.

  Raises:
    OSError: if a file cannot be written.
  """
  if not distribution.is_chief():
    return
  values = settings.values(config)
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
  num_earlier = run_info.add_command(output_dir, entry)
  writer = progress.events_writer(output_dir)
  with writer.as_default(num_earlier):
    text = json_files.encode(entry, indent=2, default=str)
    tf.summary.text("command", f"```\n{text}\n```")
    kinds = (bool, int, float, str)
    hparams.hparams({k: v for k, v in values.items() if isinstance(v, kinds)})
  writer.close()
