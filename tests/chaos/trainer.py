"""Trains in forked processes that are killed: python -m tests.chaos.trainer.

The process imports TensorFlow once and forks a child for each job, which halves
the time of a short run. Jobs arrive as JSON lines; each result is a JSON line.
"""

import dataclasses
import gc
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

# Python's audit events for operations that may change files.
_EVENTS = (
  "open",
  "os.rename",
  "os.remove",
  "os.mkdir",
  "os.rmdir",
  "os.link",
  "os.truncate",
)


@dataclasses.dataclass(frozen=True)
class Job:
  """A run, and when it is killed."""

  output_dir: str
  # Seconds until the run is killed with SIGKILL; None lets it finish.
  kill_after_s: float | None = None
  # Whether kill_after_s counts from the first operation on a checkpoint.
  from_first_save: bool = False
  # Kills the run before the operation on output_dir with this index, from 0.
  kill_at_operation: int | None = None


class Operations:
  """Records a process's file operations, and kills the process before one."""

  def __init__(self, job: Job, first_save: int) -> None:
    self._job = job
    self._first_save = first_save  # Pipe that reports the first save.
    self._process = os.getpid()  # Forked helper processes are not counted.
    self._has_saved = False
    self.names: list[str] = []

  def start(self) -> None:
    """Starts to count operations."""
    sys.addaudithook(self._audit)

  def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
    if event in _EVENTS and arguments and isinstance(arguments[0], str):
      path = arguments[0]
      if path.startswith(self._job.output_dir) and os.getpid() == self._process:
        self.add(f"{event} {path.removeprefix(self._job.output_dir)}")

  def add(self, name: str) -> None:
    """Records an operation; kills the process if the job names this one."""
    if len(self.names) == self._job.kill_at_operation:
      os.kill(os.getpid(), signal.SIGKILL)
    self.names.append(name)
    if "model.ckpt" in name and not self._has_saved:
      self._has_saved = True
      os.write(self._first_save, b"s")


def count_saves(operations: Operations) -> None:
  """Counts checkpoint writes of TensorFlow, which raise no audit event."""
  import tensorflow as tf

  save = tf.raw_ops.SaveV2

  def counted(**arguments: Any) -> None:
    operations.add("SaveV2 model.ckpt")
    save(**arguments)

  tf.raw_ops.SaveV2 = counted


def _child(
  train: Callable[[str, Operations], None], job: Job, first_save: int
) -> int:
  """Runs a job; returns its exit status."""
  log = os.open(job.output_dir + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
  for descriptor in (1, 2):
    os.dup2(log, descriptor)
  operations = Operations(job, first_save)
  operations.start()
  try:
    train(job.output_dir, operations)
  except (ValueError, OSError) as error:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return 1
  except BaseException:  # noqa: BLE001  The log must have it.
    traceback.print_exc()
    return 2
  with open(job.output_dir + ".operations", "w") as writer:
    json.dump(operations.names, writer)
  return 0


def _run(train: Callable[[str, Operations], None], job: Job) -> dict[str, Any]:
  """Forks a child for a job and maybe kills it; returns status and times."""
  reader, writer = os.pipe()
  start = time.monotonic()
  process = os.fork()
  if not process:
    os.close(reader)
    os._exit(_child(train, job, writer))
  os.close(writer)
  first_save_s = None
  if select.select([reader], [], [], None if job.from_first_save else 0)[0]:
    first_save_s = time.monotonic() - start
  ended = 0
  if job.kill_after_s is not None:
    begin = time.monotonic() if job.from_first_save else start
    while not ended and time.monotonic() < begin + job.kill_after_s:
      time.sleep(0.002)
      ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
      os.kill(process, signal.SIGKILL)
  if not ended:
    _, status = os.waitpid(process, 0)
  if first_save_s is None and select.select([reader], [], [], 0)[0]:
    first_save_s = 0.0  # It saved, but this process did not look in time.
  os.close(reader)
  return {
    "was_killed": os.WIFSIGNALED(status),
    "status": os.waitstatus_to_exitcode(status),
    "seconds": time.monotonic() - start,
    "first_save_s": first_save_s,
  }


def serve(module: str, jobs: TextIO, results: TextIO) -> None:
  """Runs each job of a stream with the `train` of a module in this folder."""
  train = importlib.import_module(f"tests.chaos.{module}").train
  gc.freeze()  # Otherwise each child's collector would copy memory.
  for line in jobs:
    result = _run(train, Job(**json.loads(line)))
    print(json.dumps(result), file=results, flush=True)


if __name__ == "__main__":
  # The children's own output goes to their logs.
  serve(sys.argv[1], sys.stdin, os.fdopen(os.dup(1), "w"))
