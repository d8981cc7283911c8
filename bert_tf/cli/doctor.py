"""Checks the installation: packages, devices and a training step.

bert-tf doctor | tee report.txt

Each check prints a line: ok, missing (tensorflow-text, which only some commands
need), warning or error. After an error, training cannot work, and the exit
status is 1.
"""

import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from packaging import requirements

import bert_tf
from bert_tf.cli import command
from bert_tf.files import packages
from bert_tf.model.kernels import backend

# Status, what was checked, the result and, after a fault, what fixes it.
Row = tuple[str, ...]

# The checks of _train, with status and advice for those that fail.
_STEPS = {
  "devices": ("error", "pip install --force-reinstall tensorflow keras"),
  "training step": ("error", "hide the GPU: CUDA_VISIBLE_DEVICES=-1 bert-tf"),
  "step with XLA": ("warning", "train with --nouse_xla"),
}


@command.of()
def run() -> None:
  """Prints the rows of all checks; exits with status 1 after an error."""
  backend.check_tensorflow()
  statuses = []
  for status, name, *texts in _rows():
    print(f"{status:9}{name:17}{': '.join(texts)}", flush=True)
    statuses.append(status)
  num_errors, num_warnings = map(statuses.count, ("error", "warning"))
  result = "cannot work" if num_errors else "can work"
  print(f"Training {result}. Errors: {num_errors}, warnings: {num_warnings}.")
  sys.exit(1 if num_errors else 0)


def _rows() -> Iterator[Row]:
  python = platform.python_version()
  yield "ok", "Python", f"{python} on {platform.platform()}"
  yield "ok", "bert_tf", bert_tf.__version__
  for needed in map(
    requirements.Requirement, metadata.requires("bert_tf") or []
  ):
    if needed.marker and not needed.marker.evaluate({"extra": ""}):
      continue  # Of an extra, which the commands that need it name.
    name, version = needed.name, _version(needed.name)
    status, requirement = "error", f"{name}{needed.specifier}"
    if name == "tensorflow-text":  # Training does not need it.
      status = "warning" if version else "missing"
      requirement = packages.tensorflow_text_requirement(_version("tensorflow"))
    if version and needed.specifier.contains(version, prereleases=True):
      yield "ok", name, version
    else:
      fault = f"{version} is not {needed.specifier}"
      advice = f"pip install '{requirement}'"
      yield status, name, fault if version else "not installed", advice
  yield from _training_rows()


def _version(name: str) -> str:
  try:
    return metadata.version(name)
  except metadata.PackageNotFoundError:
    return ""


def _training_rows() -> Iterator[Row]:
  """Trains in a process of its own, which TensorFlow may end at a fault."""
  # The process finds the same packages, but none in the working directory.
  path = os.pathsep.join(filter(os.path.isabs, sys.path))
  process = subprocess.run(
    [sys.executable, "-c", "from bert_tf.cli import doctor; doctor._train()"],
    capture_output=True,
    env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
    cwd=os.sep,
    errors="replace",
  )
  texts = dict(re.findall(r"(?m)^(.+?)\t(.+)$", process.stdout))
  for name, (status, advice) in _STEPS.items():
    if name not in texts:
      reason = process.stderr.strip().splitlines()[-1:]
      yield status, name, *reason, f"status {process.returncode}", advice
      return
    yield "ok", name, texts[name]
  # NVIDIA's driver has this program.
  if "GPU" not in texts["devices"] and shutil.which("nvidia-smi"):
    text = "TensorFlow does not see it, CUDA_VISIBLE_DEVICES may hide it"
    yield "warning", "GPU", text, packages.format_install_command("gpu")


def _train() -> None:
  """Prints the devices and the loss of two steps, each when it is known."""
  import keras
  import tensorflow as tf

  from bert_tf import optimization
  from bert_tf.model import heads

  devices = []
  for device in tf.config.list_physical_devices():
    name = device.name.removeprefix("/physical_device:")
    if device.device_type == "GPU":
      # TensorFlow would take all of the memory, which others may use.
      tf.config.experimental.set_memory_growth(device, True)
      name += f" {tf.config.experimental.get_device_details(device)}"
    devices.append(name)
  print("devices", ", ".join(devices), sep="\t", flush=True)
  config = bert_tf.BertConfig(32, hidden_size=24, num_hidden_layers=1)
  inputs, labels = {"input_ids": tf.ones([2, 8], "int32")}, tf.constant([0, 1])
  for name in ("training step", "step with XLA"):
    model = heads.ClassifierModel(config, num_labels=2)
    model.compile(
      optimizer=optimization.AdamWeightDecayOptimizer(1e-3),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      jit_compile=name == "step with XLA",
    )
    loss = float(model.train_on_batch(inputs, labels))
    if not math.isfinite(loss):
      raise ValueError(f"the loss is {loss}")
    print(name, f"the loss is {loss:.3f}", sep="\t", flush=True)
