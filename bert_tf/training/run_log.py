"""The log of commands in a run's folder, with settings and versions."""

import datetime
import platform
import shlex
import sys

import keras
import numpy as np
import tensorflow as tf

import bert_tf
from bert_tf import distribution, settings
from bert_tf.model_folder import run_info


def add(output_dir: str, config: settings.Dataclass) -> None:
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
