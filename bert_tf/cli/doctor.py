"""Checks the installation: packages, devices and a training step.

bert-tf doctor | tee report.txt

Prints a line for each check: ok, missing (a package that only some commands
need), warning or error. Exits with status 1 after an error, since training
cannot work then.
"""

import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata

from packaging import requirements

import bert_tf
from bert_tf.cli import command
from bert_tf.files import errors
from bert_tf.kernels import backend

# Status, what was checked, the result and, after a fault, what mends it.
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
  for needed in _requirements("bert_tf"):
    name, status = needed.name, "error"
    requirement = f"{name}{needed.specifier}"
    if name == "tensorflow-text":  # Training does not need it.
      status = "warning" if _version(name) else "missing"
      requirement = errors.tensorflow_text_requirement(_version("tensorflow"))
    yield _package_row(name, [needed], status, f"pip install '{requirement}'")
  for extra in metadata.metadata("bert_tf").get_all("Provides-Extra") or []:
    advice = errors.format_install_command(extra)
    all_needed = list(_requirements("bert_tf", extra))
    yield _package_row(extra, all_needed, "missing", advice)
  yield from _training_rows()


def _requirements(
  package: str, extra: str = ""
) -> Iterator[requirements.Requirement]:
  """Yields what a package requires here, or what an extra of it adds."""
  for line in metadata.requires(package) or []:
    needed = requirements.Requirement(line)
    applies = needed.marker.evaluate if needed.marker else lambda _: True
    if not applies({"extra": extra}) or (extra and applies({"extra": ""})):
      continue
    if needed.name != package:
      yield needed
    if _version(needed.name):
      for other in sorted(needed.extras):  # Such as tensorflow[and-cuda].
        yield from _requirements(needed.name, other)


def _version(name: str) -> str:
  try:
    return metadata.version(name)
  except metadata.PackageNotFoundError:
    return ""


def _package_row(
  name: str,
  needed: Sequence[requirements.Requirement],
  status: str,
  advice: str,
) -> Row:
  """The row of packages; `status` and `advice` apply if one does not fit."""
  texts, faults = [], []
  for package in needed:
    version = _version(package.name) or "not installed"
    texts.append(f"{package.name} {version}".removeprefix(f"{name} "))
    if version == "not installed":
      faults.append(texts[-1])
    elif not package.specifier.contains(version, prereleases=True):
      faults.append(f"{texts[-1]} is not {package.specifier}")
  if faults:
    return status, name, errors.join_names(faults, 3), advice
  return "ok", name, errors.join_names(texts, 3)


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
    yield "warning", "GPU", text, errors.format_install_command("gpu")


def _train() -> None:
  """Prints the devices and the loss of two steps, each when it is known."""
  import keras
  import tensorflow as tf

  from bert_tf import heads, optimization

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
