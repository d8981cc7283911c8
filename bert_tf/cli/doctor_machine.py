"""Checks of `bert-tf doctor` that need no package: Python, memory, GPUs."""

import csv
import operator
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from bert_tf.cli import doctor_rows

_GIB = 2**30

_COMPARISONS = {
  ">=": operator.ge,
  "<=": operator.le,
  ">": operator.gt,
  "<": operator.lt,
  "==": operator.eq,
  "!=": operator.ne,
}

# Memory to train BERT-Base, and disk space for one checkpoint of this training
# (see bert-tf inspect).
_MIN_MEMORY = 4 * _GIB
_MIN_DISK = 2 * _GIB

# Columns of nvidia-smi. Memory is in MiB.
_COLUMNS = ("name", "driver_version", "compute_cap", "memory.free")


class Driver(NamedTuple):
  """NVIDIA's driver.

  Attributes:
    gpus: the values of _COLUMNS for each GPU, as nvidia-smi prints them.
    fault: why nvidia-smi failed; "" if it did not.
  """

  gpus: list[dict[str, str]]
  fault: str = ""


def find_driver() -> Driver | None:
  """Returns NVIDIA's driver and its GPUs; None if there is no driver."""
  program = shutil.which("nvidia-smi")
  if not program:
    if not os.path.exists("/proc/driver/nvidia/version"):
      return None
    return Driver([], "the driver is loaded, but nvidia-smi is not on the PATH")
  query = f"--query-gpu={','.join(_COLUMNS)}"
  try:
    process = subprocess.run(
      [program, query, "--format=csv,noheader,nounits"],
      capture_output=True,
      encoding="utf-8",
      errors="replace",
      timeout=60,
    )
  except (OSError, subprocess.TimeoutExpired) as error:
    return Driver([], f"nvidia-smi failed: {error}")
  lines = process.stdout.strip().splitlines()
  if process.returncode:
    words = (process.stderr.strip().splitlines() or lines)[-1:]
    return Driver([], ": ".join(["nvidia-smi failed", *words]))
  rows = csv.reader(lines, skipinitialspace=True)
  return Driver([dict(zip(_COLUMNS, row)) for row in rows])


def rows(
  driver: Driver | None, requires_python: str
) -> Iterator[doctor_rows.Row]:
  """Yields the rows of the machine.

  Args:
    driver: from `find_driver`.
    requires_python: versions of Python that the package supports, as in
      pyproject.toml; "" if not known.
  """
  yield _python_row(requires_python)
  yield _memory_row()
  yield _disk_row()
  yield _driver_row(driver)


def _python_row(requires_python: str) -> doctor_rows.Row:
  version = platform.python_version()
  if requires_python and not is_within(version, requires_python):
    return doctor_rows.error(
      "Python",
      f"{version} is not {requires_python}",
      "make an environment with another version, python3.13 -m venv venv",
    )
  return doctor_rows.ok(
    "Python", f"{version} on {platform.system()} {platform.machine()}"
  )


def is_within(version: str, bounds: str) -> bool:
  """Returns whether a version satisfies bounds such as ">=3.10,<3.14".

  Treats other operators, such as ~=, as >=.
  """
  number = _release(version)
  for bound in filter(None, bounds.split(",")):
    limit = bound.strip().lstrip("<>=!~")
    comparison = bound.strip().removesuffix(limit)
    size = max(len(number), len(_release(limit)))
    compare = _COMPARISONS.get(comparison, operator.ge)
    if not compare(_padded(number, size), _padded(_release(limit), size)):
      return False
  return True


def _release(version: str) -> tuple[int, ...]:
  """Returns the leading numbers of a version, (2, 20) for 2.20.0rc1."""
  numbers = []
  for part in version.split("."):
    if not part.isdigit():
      break
    numbers.append(int(part))
  return tuple(numbers)


def _padded(number: tuple[int, ...], size: int) -> tuple[int, ...]:
  return number + (0,) * (size - len(number))


def _memory_row() -> doctor_rows.Row:
  free, total = _memory()
  if total is None:
    return doctor_rows.ok("memory", "unknown on this system")
  text = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
  if free < _MIN_MEMORY:
    mend = "end other programs, or lower --train_batch_size"
    return doctor_rows.warning("memory", text, mend)
  return doctor_rows.ok("memory", text)


def _memory() -> tuple[float, float | None]:
  """Returns free and total bytes of memory, within a container's limit.

  Returns (0, None) if the memory is not known.
  """
  try:
    with open("/proc/meminfo") as file:
      lines = dict(line.split(":", 1) for line in file)
    free = 1024 * int(lines["MemAvailable"].split()[0])
    total = 1024 * int(lines["MemTotal"].split()[0])
  except (OSError, ValueError, LookupError):  # Not Linux.
    return 0, None
  try:
    limit, used = map(_read_limit, ("max", "current"))
  except (OSError, ValueError):  # No container, or no limit.
    return free, total
  return min(free, max(0, limit - used)), min(total, limit)


def _read_limit(name: str) -> int:
  """Returns memory.max or memory.current of this container, in bytes."""
  with open(f"/sys/fs/cgroup/memory.{name}") as file:
    return int(file.read())


def _disk_row() -> doctor_rows.Row:
  try:
    folder = os.getcwd()
    free = shutil.disk_usage(folder).free
  except OSError as error:
    return doctor_rows.warning("disk", f"the current folder: {error}", "cd ~")
  text = f"{free / _GIB:.1f} GiB free in {folder}"
  if not os.access(folder, os.W_OK):
    text = f"{folder} is not writable"
    return doctor_rows.warning("disk", text, "write --output_dir elsewhere")
  if free < _MIN_DISK:
    mend = "free some, or keep fewer checkpoints: --keep_checkpoint_max=1"
    return doctor_rows.warning("disk", text, mend)
  return doctor_rows.ok("disk", text)


def _driver_row(driver: Driver | None) -> doctor_rows.Row:
  name = "NVIDIA driver"
  if driver is None:
    return doctor_rows.ok(name, "none: no NVIDIA GPU to use")
  if driver.fault:
    mend = "repair the driver until nvidia-smi works, or restart the machine"
    return doctor_rows.warning(name, driver.fault, mend)
  if not driver.gpus:
    return doctor_rows.warning(name, "nvidia-smi lists no GPU", "nvidia-smi")
  version = driver.gpus[0]["driver_version"]
  gpus = "; ".join(
    f"{gpu['name']}, {gpu['memory.free']} MiB free" for gpu in driver.gpus
  )
  return doctor_rows.ok(name, f"{version}: {gpus}")


def find_bfloat16_units() -> list[str]:
  """Returns the processor's instructions for bfloat16; [] if none are known."""
  try:
    with open("/proc/cpuinfo") as file:
      flags = next(line for line in file if line.startswith("flags")).split()
  except (OSError, StopIteration):  # Not Linux, or not x86.
    return []
  return [name for name in ("amx_bf16", "avx512_bf16") if name in flags]
