"""Checks of `bert-tf doctor` that need no package: memory, disk, processor."""

import os
import shutil
import subprocess

from bert_tf.cli import doctor_rows

_GIB = 2**30

# Memory to train BERT-Base, and disk space for one checkpoint of this training
# (see bert-tf inspect).
_MIN_MEMORY = 4 * _GIB
_MIN_DISK = 2 * _GIB

NO_DRIVER = doctor_rows.ok("NVIDIA driver", "none: no NVIDIA GPU to use")


def memory_row() -> doctor_rows.Row:
  """Returns the row of the free memory."""
  try:
    free, total = _memory()
  except (OSError, ValueError, LookupError):  # Not Linux.
    return doctor_rows.ok("memory", "unknown on this system")
  text = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free"
  if free < _MIN_MEMORY:
    mend = "end other programs, or lower --train_batch_size"
    return doctor_rows.warning("memory", text, mend)
  return doctor_rows.ok("memory", text)


def _memory() -> tuple[int, int]:
  """Returns free and total bytes of memory, within a container's limit.

  Cached files that the system can drop count as free.
  """
  with open("/proc/meminfo") as file:
    lines = dict(line.split(":", 1) for line in file)
  free = 1024 * int(lines["MemAvailable"].split()[0])
  total = 1024 * int(lines["MemTotal"].split()[0])
  try:
    limit, used = (int(_read_cgroup(name)) for name in ("max", "current"))
    stat = dict(line.split() for line in _read_cgroup("stat").splitlines())
    used -= int(stat["inactive_file"])
  except (OSError, ValueError, KeyError):  # No container, or no limit.
    return free, total
  return min(free, max(0, limit - used)), min(total, limit)


def _read_cgroup(name: str) -> str:
  """Returns the file memory.NAME of this container; its unit is bytes."""
  with open(f"/sys/fs/cgroup/memory.{name}") as file:
    return file.read()


def disk_row() -> doctor_rows.Row:
  """Returns the row of the free disk space in the current folder."""
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


def driver_row() -> doctor_rows.Row:
  """Returns the row of NVIDIA's driver and its GPUs, or NO_DRIVER."""
  program = shutil.which("nvidia-smi")
  if not program:
    return NO_DRIVER
  query = "--query-gpu=driver_version,name,memory.free"
  try:
    process = subprocess.run(
      [program, query, "--format=csv,noheader"],
      capture_output=True,
      encoding="utf-8",
      errors="replace",
      timeout=60,
    )
  except (OSError, subprocess.TimeoutExpired) as error:
    return _broken_driver(str(error))
  lines = process.stdout.strip().splitlines()
  if process.returncode or not lines:
    messages = process.stderr.strip().splitlines() or lines
    return _broken_driver(*messages[-1:])
  gpus = "; ".join(f"{line} free" for line in lines)
  return doctor_rows.ok(NO_DRIVER.name, gpus)


def _broken_driver(*reasons: str) -> doctor_rows.Row:
  return doctor_rows.warning(
    NO_DRIVER.name,
    ": ".join(["nvidia-smi finds no GPU", *reasons]),
    "repair the driver until nvidia-smi works, or restart the machine",
  )


def find_bfloat16_units() -> list[str]:
  """Returns the processor's instructions for bfloat16; [] if none are known."""
  try:
    with open("/proc/cpuinfo") as file:
      flags = next(line for line in file if line.startswith("flags")).split()
  except (OSError, StopIteration):  # Not Linux, or not x86.
    return []
  return [name for name in ("amx_bf16", "avx512_bf16") if name in flags]
