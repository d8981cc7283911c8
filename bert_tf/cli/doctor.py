"""Checks the installation and says how to mend it.

bert-tf doctor | tee report.txt

Checks Python, TensorFlow, devices and extras. Prints a line for each check: ok,
missing (an extra that is not installed), warning or error. Exits with status 1
if there is an error, since training cannot work then. Needs no model and trains
nothing.
"""

import concurrent.futures
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import bert_tf
from bert_tf.cli import (
  doctor_machine,
  doctor_packages,
  doctor_probes,
  doctor_rows,
)
from bert_tf.files import errors
from bert_tf.kernels import backend

# Lowest compute capability of GPUs with bfloat16 and TF32: Ampere.
_AMPERE = [8, 0]

# The products that doctor_probes computes on each device, with the advice for a
# failure.
_PRODUCTS = {
  "float32": "train on another device; CUDA_VISIBLE_DEVICES=-1 hides GPUs",
  "XLA": "set --nouse_xla",
  "bfloat16": "set --precision=float32",
}


def main() -> None:
  """Prints the rows of all checks; exits with status 1 after an error."""
  statuses = []
  for row in _rows():
    print(row, flush=True)
    statuses.append(row.status)
  num_errors = statuses.count(doctor_rows.ERROR)
  num_warnings = statuses.count(doctor_rows.WARNING)
  result = "cannot work" if num_errors else "can work"
  print(f"Training {result}. Errors: {num_errors}, warnings: {num_warnings}.")
  if num_errors:
    sys.exit(1)


def _rows() -> Iterator[doctor_rows.Row]:
  """Yields the rows of all checks."""
  yield doctor_rows.ok(doctor_packages.PACKAGE, bert_tf.__version__)
  yield doctor_machine.memory_row()
  yield doctor_machine.disk_row()
  driver = doctor_machine.driver_row()
  yield driver
  if importlib.util.find_spec("packaging") is None:  # TensorFlow needs it.
    yield doctor_rows.error(
      "packaging", "not installed", "pip install packaging"
    )
    return
  yield doctor_packages.python_row()
  yield _backend_row()
  results = doctor_probes.run("tensorflow")
  for name in ("tensorflow", "keras"):
    needed = doctor_packages.find_requirement(name)
    yield doctor_packages.package_row(needed, results)
  yield from doctor_packages.dependency_rows(("tensorflow", "keras"))
  if "devices" in results.values:
    has_driver = driver != doctor_machine.NO_DRIVER
    yield from _device_rows(has_driver, results)
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    yield from pool.map(doctor_packages.extra_row, doctor_packages.extras())


def _backend_row() -> doctor_rows.Row:
  """Returns the row of Keras' backend."""
  name = backend.name()
  try:
    if name != "tensorflow":
      backend.check_installed()
    backend.check_tensorflow()
  except (ValueError, ImportError) as error:
    return doctor_rows.error("Keras backend", str(error))
  return doctor_rows.ok("Keras backend", name)


def _device_rows(
  has_driver: bool, results: doctor_probes.Results
) -> Iterator[doctor_rows.Row]:
  """Yields the rows of CUDA, of each device and of TF32."""
  build = results.values.get("build", {})
  devices = results.values["devices"]
  yield doctor_rows.ok("CUDA", _describe_cuda(build))
  if has_driver and not any(name.startswith("GPU") for name in devices):
    text = "TensorFlow sees no GPU, though the machine has NVIDIA's driver"
    yield doctor_rows.warning("GPU", text, _find_hidden_gpu(build))
  for name, details in devices.items():
    yield _device_row(name, details, results)
  text = "no device for it, so float32 is exact"
  if any(_is_ampere(details) for details in devices.values()):
    text = "training uses it only with --precision=tf32"
    if results.values.get("tf32"):
      text += "; predictions use it, TensorFlow's default"
  yield doctor_rows.ok("TF32", text)


def _describe_cuda(build: Mapping[str, Any]) -> str:
  """Returns the versions of CUDA and cuDNN: needed and installed."""
  if not build.get("is_cuda_build"):
    return "this TensorFlow is built without CUDA"
  text = (
    f"built for CUDA {build.get('cuda_version')} and cuDNN "
    f"{build.get('cudnn_version')}"
  )
  for name in ("nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12"):
    version = doctor_packages.Requirement(name).version
    text += f"; {name} {version}" if version else ""
  return text


def _find_hidden_gpu(build: Mapping[str, Any]) -> str:
  """Returns advice on how to make the GPU visible to TensorFlow."""
  visible = os.environ.get("CUDA_VISIBLE_DEVICES")
  if visible is not None and visible.strip() in ("", "-1"):
    return f"unset CUDA_VISIBLE_DEVICES, which is {visible!r}"
  if not build.get("is_cuda_build"):
    tensorflow = doctor_packages.find_requirement("tensorflow")
    command = f"'tensorflow[and-cuda]{tensorflow.bounds}'"
    return f"pip uninstall tensorflow-cpu; pip install {command}"
  needed = doctor_packages.requirements("tensorflow", "and-cuda")
  if any(package.version is None for package in needed):
    return errors.format_install_command("gpu")
  return (
    "see which library is missing: TF_CPP_MIN_LOG_LEVEL=0 python -c 'import "
    'tensorflow as tf; tf.config.list_physical_devices("GPU")\''
  )


def _device_row(
  name: str, details: Mapping[str, Any], results: doctor_probes.Results
) -> doctor_rows.Row:
  """Returns the row of a device, with the results of its matrix products."""
  capability = ".".join(map(str, details.get("compute_capability", ())))
  title = str(details.get("device_name", ""))
  if capability:
    title += f", compute capability {capability}"
  works = [k for k in _PRODUCTS if f"{name} {k}" in results.values]
  text = f"{title}: " if title else ""
  text += f"products work in {', '.join(works)}" if works else "no product"
  for kind, mend in _PRODUCTS.items():
    if fault := results.faults.get(f"{name} {kind}"):
      row = doctor_rows.error if kind == "float32" else doctor_rows.warning
      return row(name, f"{text}; {kind} fails: {fault}", mend)
  if not works:
    return doctor_rows.warning(name, "not checked after a crash")
  newest = _newest_capability(results.values.get("build", {}))
  if capability and newest and float(capability) > newest:
    text += f"; newer than TensorFlow's kernels, {newest}; may fail (Blackwell)"
    mend = 'read "Cards and versions" in docs/gpu.md'
    return doctor_rows.warning(name, text, mend)
  return doctor_rows.ok(name, f"{text}; {_describe_bfloat16(name, details)}")


def _newest_capability(build: Mapping[str, Any]) -> float:
  """Returns the newest compute capability with kernels; 0 if not known."""
  built = [c.split("_")[-1] for c in build.get("cuda_compute_capabilities", ())]
  return max((int(c) / 10 for c in built if c.isdigit()), default=0)


def _describe_bfloat16(name: str, details: Mapping[str, Any]) -> str:
  """Returns the units that a device has for bfloat16, as a text."""
  if name.startswith("GPU"):
    units = "tensor cores" if _is_ampere(details) else ""
  else:
    units = ", ".join(doctor_machine.find_bfloat16_units())
  return f"bfloat16: {units or 'no units, so float32 is faster'}"


def _is_ampere(details: Mapping[str, Any]) -> bool:
  return list(details.get("compute_capability") or ()) >= _AMPERE


def run() -> None:
  """Runs the command; never returns."""
  try:
    from bert_tf.cli import command
  except ImportError:  # absl, which all other commands need, is broken.
    main()
    sys.exit()
  command.run(main, __doc__)


if __name__ == "__main__":
  run()
