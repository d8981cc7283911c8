"""Checks of `bert-tf doctor` that may crash, in a process of their own.

  python -m bert_tf.cli.doctor_probes tensorflow
  python -m bert_tf.cli.doctor_probes import MODULE...

A check writes a line when it begins and one when it ends, so that the doctor
knows which check crashed. TensorFlow ends the whole process if XLA cannot
compile for a GPU, or if the processor lacks instructions.
"""

import functools
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

# Begins each line for the doctor, since packages may print other lines.
_MARK = "doctor: "

# Seconds until a process is stopped. If TensorFlow has no kernels for a GPU,
# the driver compiles all of them first.
_TIMEOUT = 600

# Rows and columns of the matrices of ones to multiply. All entries of the
# product are this number, which bfloat16 represents exactly.
_SIZE = 256


class Results(NamedTuple):
  """The results of the checks of a process.

  Attributes:
    values: the value of each check that passed, by name.
    faults: the error of each check that failed or crashed, by name. If no
      check has begun, "" has the end of the process.
  """

  values: dict[str, Any]
  faults: dict[str, str]


def run(*arguments: str) -> Results:
  """Runs this module in a new process; returns the results of its checks.

  `arguments` are those at the top of this module.
  """
  environment = {
    **os.environ,
    # The process finds the same packages, but none in the working directory.
    "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path)),
    "PYTHONSAFEPATH": "1",
    "KERAS_BACKEND": "tensorflow",
  }
  try:
    process = subprocess.run(
      [sys.executable, "-m", "bert_tf.cli.doctor_probes", *arguments],
      capture_output=True,
      env=environment,
      cwd=os.sep,  # The working directory may be deleted.
      timeout=_TIMEOUT,
    )
  except subprocess.TimeoutExpired as error:
    return _parse(error.stdout or b"", f"no answer in {_TIMEOUT} seconds")
  return _parse(process.stdout, _describe_end(process))


def _describe_end(process: subprocess.CompletedProcess[bytes]) -> str:
  """Returns how a process ended, with the last line of its stderr."""
  status = process.returncode
  end = f"the process ended with status {status}"
  if status < 0:
    end = f"the process crashed with {signal.Signals(-status).name}"
  lines = process.stderr.decode(errors="replace").strip().splitlines()
  return ": ".join([end, *lines[-1:]])


def _parse(output: bytes, end: str) -> Results:
  """Parses the output of a process.

  `end` describes how the process ended. A check that did not end has this text
  as its error.
  """
  results = Results({}, {})
  for line in output.decode(errors="replace").splitlines():
    if line.startswith(_MARK):
      result = json.loads(line.removeprefix(_MARK))
      name = result["check"]
      # `end` stays unless a later line has the result of this check.
      results.faults[name] = result.get("error", end)
      if "value" in result:
        results.values[name] = result["value"]
        del results.faults[name]
  if not results.values and not results.faults:
    results.faults[""] = end
  return results


def main(kind: str, *modules: str) -> None:
  """Checks TensorFlow, or imports modules."""
  if kind == "tensorflow":
    _check_tensorflow()
  for module in modules:
    _check(module, functools.partial(_import, module))


def _import(module: str) -> None:
  importlib.import_module(module)


def _check(name: str, function: Callable[[], Any]) -> bool:
  """Runs a check and writes its value or its error; returns whether it passed.

  Catches all errors and SystemExit, since broken packages may raise any.
  """
  _write({"check": name})
  try:
    value = function()
  except (Exception, SystemExit) as error:
    lines = str(error).strip().splitlines()
    kind = type(error).__name__
    _write({"check": name, "error": ": ".join([kind, *lines[:1]])})
    return False
  _write({"check": name, "value": value})
  return True


def _write(values: dict[str, Any]) -> None:
  print(f"{_MARK}{json.dumps(values)}", flush=True)


def _check_tensorflow() -> None:
  """Checks TensorFlow, Keras and matrix products on each device."""
  if not _check("tensorflow", functools.partial(_import, "tensorflow")):
    return
  import tensorflow as tf

  _check("keras", _import_keras)
  _check("build", lambda: dict(tf.sysconfig.get_build_info()))
  _check("tf32", tf.config.experimental.tensor_float_32_execution_enabled)
  if not _check("devices", _devices):
    return
  for device in tf.config.list_logical_devices():
    name = device.name.removeprefix("/device:")
    for kind in ("float32", "bfloat16", "XLA"):
      _check(f"{name} {kind}", functools.partial(_multiply, device.name, kind))


def _import_keras() -> None:
  """Imports Keras as commands do."""
  from bert_tf.cli import command

  command.hide_packages_from_keras()
  _import("keras")


def _devices() -> dict[str, dict[str, Any]]:
  """Returns the details of each device; {} for a CPU.

  Makes TensorFlow take only the memory that it needs, since another process may
  use the GPU.
  """
  import tensorflow as tf

  devices = {}
  for device in tf.config.list_physical_devices():
    details = {}
    if device.device_type == "GPU":
      tf.config.experimental.set_memory_growth(device, True)
      details = tf.config.experimental.get_device_details(device)
    devices[device.name.removeprefix("/physical_device:")] = details
  return devices


def _multiply(device: str, kind: str) -> None:
  """Multiplies two matrices of ones; raises ValueError for a wrong product.

  `kind` is the dtype, or XLA to compile the product in float32.
  """
  import tensorflow as tf

  is_compiled = kind == "XLA"
  multiply = tf.function(tf.matmul, jit_compile=is_compiled)
  with tf.device(device):
    ones = tf.ones([_SIZE, _SIZE], "float32" if is_compiled else kind)
    values = tf.cast(multiply(ones, ones), tf.float32).numpy()
  if not (values == _SIZE).all():
    raise ValueError(f"a product is {values.flat[0]}, not {_SIZE}")


if __name__ == "__main__":
  main(*sys.argv[1:])
