"""Checks the installation: packages, memory, devices and a training step.

bert-tf doctor | tee report.txt

Prints a line for each check: ok, missing (a package that only some commands
need), warning or error. Exits with status 1 after an error, since training
cannot work then. Needs no model and no data.
"""

import math
import os
import pathlib
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
from bert_tf.files import errors
from bert_tf.kernels import backend

# A line of the report: its status ("ok", "missing", "warning" or "error"), what
# was checked, the result and, after a fault, what mends it.
Row = tuple[str, ...]

# The checks of _train, with status and advice for those that fail.
_STEPS = {
  "devices": ("error", "pip install --force-reinstall tensorflow keras"),
  "training step": ("error", "hide the GPU: CUDA_VISIBLE_DEVICES=-1 bert-tf"),
  "step with XLA": ("warning", "train with --nouse_xla"),
}


def main() -> None:
  """Prints the rows of all checks; exits with status 1 after an error."""
  backend.check_tensorflow()
  statuses = []
  for status, name, *texts in _rows():
    print(f"{status:9}{name:17}{': '.join(texts)}", flush=True)
    statuses.append(status)
  num_errors, num_warnings = map(statuses.count, ("error", "warning"))
  result = "cannot work" if num_errors else "can work"
  print(f"Training {result}. Errors: {num_errors}, warnings: {num_warnings}.")
  if num_errors:
    sys.exit(1)


def _rows() -> Iterator[Row]:
  python = platform.python_version()
  yield "ok", "Python", f"{python} on {platform.platform()}"
  yield "ok", "bert_tf", bert_tf.__version__
  if not _version("bert_tf"):
    yield "warning", "packages", "not installed", "pip install ."
  else:
    yield from map(_package_row, _requirements("bert_tf"))
    extras = metadata.metadata("bert_tf").get_all("Provides-Extra") or []
    yield from map(_extra_row, extras)
  yield _memory_row()
  yield from _training_rows()


def _requirements(
  package: str, extra: str = ""
) -> Iterator[requirements.Requirement]:
  """Yields what a package requires here, or what an extra of it adds."""
  for line in metadata.requires(package) or []:
    needed = requirements.Requirement(line)
    marker = needed.marker
    is_always = not marker or marker.evaluate({"extra": ""})
    by_extra = marker and not is_always and marker.evaluate({"extra": extra})
    if not (by_extra if extra else is_always):
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


def _fault(needed: requirements.Requirement) -> str:
  version = _version(needed.name)
  if not version:
    return "not installed"
  is_met = needed.specifier.contains(version, prereleases=True)
  return "" if is_met else f"{version} is not {needed.specifier}"


def _package_row(needed: requirements.Requirement) -> Row:
  requirement = f"{needed.name}{needed.specifier}"
  is_text = needed.name == "tensorflow-text"  # Training does not need it.
  if is_text and (tensorflow := _version("tensorflow")):
    requirement = errors.tensorflow_text_requirement(tensorflow)
  version, fault = _version(needed.name), _fault(needed)
  if not fault:
    return "ok", needed.name, version
  status = "warning" if version else "missing" if is_text else "error"
  return status, needed.name, fault, f"pip install '{requirement}'"


def _extra_row(extra: str) -> Row:
  needed = list(_requirements("bert_tf", extra))
  if faults := [f"{n.name} {_fault(n)}" for n in needed if _fault(n)]:
    advice = errors.format_install_command(extra)
    return "missing", extra, errors.join_names(faults, 3), advice
  versions = [f"{n.name} {_version(n.name)}" for n in needed]
  return "ok", extra, errors.join_names(versions, 3)


def _memory_row() -> Row:
  try:
    text = pathlib.Path("/proc/meminfo").read_text()
    free = 1024 * int(re.findall(r"MemAvailable: *(\d+)", text)[0])
  except OSError:  # Not Linux.
    return "ok", "free memory", "unknown on this system"
  return "ok", "free memory", f"{free / 2**30:.1f} GiB"


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
    if name == "devices" and "GPU" not in texts[name]:
      if shutil.which("nvidia-smi"):  # The machine has NVIDIA's driver.
        text = "TensorFlow does not see it, CUDA_VISIBLE_DEVICES may hide it"
        advice = errors.format_install_command("gpu")
        yield "warning", "GPU", text, advice


def _train() -> None:
  """Prints the devices and the loss of two steps, each when it is known."""
  import keras
  import tensorflow as tf

  from bert_tf import heads, optimization

  devices = []
  for device in tf.config.list_physical_devices():
    devices.append(device.name.removeprefix("/physical_device:"))
    if device.device_type == "GPU":
      # TensorFlow would take all of the memory, which others may use.
      tf.config.experimental.set_memory_growth(device, True)
      devices[-1] += f" {tf.config.experimental.get_device_details(device)}"
  print("devices", ", ".join(devices), sep="\t", flush=True)
  config = bert_tf.BertConfig(32, hidden_size=24, num_hidden_layers=1)
  for name in ("training step", "step with XLA"):
    model = heads.ClassifierModel(config, num_labels=2)
    model.compile(
      optimizer=optimization.AdamWeightDecayOptimizer(1e-3),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      jit_compile=name == "step with XLA",
    )
    inputs = {"input_ids": tf.ones([2, 8], "int32")}
    loss = float(model.train_on_batch(inputs, tf.constant([0, 1])))
    if not math.isfinite(loss):
      raise ValueError(f"the loss is {loss}")
    print(name, f"the loss is {loss:.3f}", sep="\t", flush=True)


def run() -> None:
  """Runs the command; never returns."""
  command.run(main, __doc__)
