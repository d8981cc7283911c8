"""Kills training runs with SIGKILL and checks that the next process resumes.

A run is killed and started again until it ends. Its weights must then be equal
to those of a run that was never killed, to the bit.
"""

import concurrent.futures
import dataclasses
import itertools
import json
import os
import pathlib
import queue
import random
import re
import subprocess
import sys
from collections.abc import Iterator

from tests.chaos import outcomes

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Kills of each run; after the last one, the run may end.
_KILLS_PER_RUN = 8
# Log lines with the step that is saved, or resumed from.
_SAVED = re.compile(r"Saved \S*model\.ckpt-(\d+)\.")
_RESUMED = re.compile(r"Resuming from \S*model\.ckpt-\d+, at step (\d+)")


class Servers:
  """Processes that each run one job at a time, until the context ends."""

  def __init__(self, module: str, count: int) -> None:
    self._free: queue.Queue[subprocess.Popen] = queue.Queue()
    self._all = [_start_server(module) for _ in range(count)]
    for server in self._all:
      self._free.put(server)

  def run(self, **job: object) -> dict:
    """Runs a job; returns its result as a dictionary (see trainer.py)."""
    server = self._free.get()
    try:
      print(json.dumps(job), file=server.stdin, flush=True)
      return json.loads(server.stdout.readline())
    finally:
      self._free.put(server)

  def __enter__(self) -> "Servers":
    return self

  def __exit__(self, *error: object) -> None:
    for server in self._all:
      server.stdin.close()
      server.wait()
      server.stdout.close()


def _start_server(module: str) -> subprocess.Popen:
  paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
  return subprocess.Popen(
    [sys.executable, "-m", "tests.chaos.trainer", module],
    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    cwd=_ROOT,
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )


@dataclasses.dataclass(frozen=True)
class ReferenceRun:
  """A run that was never killed."""

  # The files of the last checkpoint, by name; one set per permitted result.
  weights: tuple[dict[str, bytes], ...]
  operations: list[str]  # Names of the operations on files, in order.
  seconds: float  # From the start to the end.
  training_seconds: float  # From the first save to the end.


def run_unkilled(
  servers: Servers, folder: pathlib.Path, name: str = "reference"
) -> ReferenceRun:
  """Runs a job to its end, without a kill, in the folder `name`."""
  path = folder / name
  result = servers.run(output_dir=str(path), from_first_save=True)
  if result["status"]:
    raise RuntimeError((folder / f"{name}.log").read_text())
  return ReferenceRun(
    (read_weights(path),),
    json.loads((folder / f"{name}.operations").read_text()),
    result["seconds"],
    result["seconds"] - result["first_save_s"],
  )


def read_weights(run: pathlib.Path) -> dict[str, bytes]:
  """Returns the files of a run's newest checkpoint."""
  steps = [
    int(p.stem.rpartition("-")[2]) for p in run.glob("model.ckpt-*.index")
  ]
  newest = run.glob(f"model.ckpt-{max(steps, default=0)}.*")
  return {path.name: path.read_bytes() for path in newest}


def save_operations(reference: ReferenceRun) -> list[int]:
  """Returns the indices of the operations from one SaveV2 to the next."""
  saves = [i for i, name in enumerate(reference.operations) if "SaveV2" in name]
  # From the third save on, each save also removes an old checkpoint.
  return list(range(saves[4] + 1, saves[5] + 1))


def attack_at_operations(
  operations: list[int],
  servers: Servers,
  reference: ReferenceRun,
  folder: pathlib.Path,
  target: str = "a training",
) -> outcomes.Outcome:
  """Kills one run at each of these operations, restarts it and lets it end."""
  outcome = outcomes.Outcome(f"kill -9 at file operations of {target}")

  def attack(index: int) -> str:
    path = folder / f"operation{index}"
    killed = servers.run(output_dir=str(path), kill_at_operation=index)
    if not killed["was_killed"]:
      return f"operation {index}: was not killed"
    ended = servers.run(output_dir=str(path))
    return find_fault(path, ended, reference)

  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for fault in pool.map(attack, operations):
      outcome.add("resumed to the same weights, to the bit", fault)
  return outcome


def attack_at_random(
  num_kills: int,
  seed: int,
  servers: Servers,
  reference: ReferenceRun,
  folder: pathlib.Path,
  target: str = "a training",
) -> outcomes.Outcome:
  """Kills runs at random moments, up to eight times each; lets them end."""
  outcome = outcomes.Outcome(f"kill -9 at random moments of {target}")
  counts = [_KILLS_PER_RUN] * (num_kills // _KILLS_PER_RUN)
  if num_kills % _KILLS_PER_RUN:
    counts.append(num_kills % _KILLS_PER_RUN)

  def attack(index: int) -> tuple[int, str]:
    rng = random.Random(f"{seed} {index}")
    folders = (folder / f"run{index}-{i}" for i in itertools.count())
    return _kill_repeatedly(servers, reference, folders, counts[index], rng)

  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for num_killed, fault in pool.map(attack, range(len(counts))):
      right = max(num_killed - bool(fault), 0)
      outcome.counts["resumed to the same weights, to the bit"] += right
      if fault:
        outcome.add("", fault)
  return outcome


def _kill_repeatedly(
  servers: Servers,
  reference: ReferenceRun,
  folders: Iterator[pathlib.Path],
  num_kills: int,
  rng: random.Random,
) -> tuple[int, str]:
  """Kills a run several times; continues with new runs if it ends early.

  Returns:
    The number of kills and the first fault, or an empty string.
  """
  path = next(folders)
  num_killed = 0
  while num_killed < num_kills:
    # Starting takes most of a short run. Most kills come after the first save.
    from_save = rng.random() < 0.75
    seconds = reference.training_seconds if from_save else reference.seconds
    # At most a quarter of training, or the run would end before the last kill.
    kill_after = rng.uniform(0, seconds / (4 if from_save else 1))
    ended = servers.run(
      output_dir=str(path), kill_after_s=kill_after, from_first_save=from_save
    )
    if ended["was_killed"]:
      num_killed += 1
    elif fault := find_fault(path, ended, reference):
      return num_killed, fault
    else:
      path = next(folders)
  ended = servers.run(output_dir=str(path))
  return num_killed, find_fault(path, ended, reference)


def find_fault(path: pathlib.Path, ended: dict, reference: ReferenceRun) -> str:
  """Returns the fault of a run that has ended, or an empty string."""
  log = path.with_name(path.name + ".log").read_text()
  if ended["status"] or "Traceback" in log:
    return f"{path.name}: status {ended['status']}: {log[-2000:]}"
  saved = 0
  for line in log.splitlines():
    if match := _SAVED.search(line):
      saved = int(match[1])
    elif (match := _RESUMED.search(line)) and int(match[1]) < saved:
      return f"{path.name}: step {saved} was saved, but lost: {line}"
  if read_weights(path) not in reference.weights:
    return f"{path.name}: other weights"
  left = [p.name for p in path.iterdir() if ".tmp-" in p.name]
  return f"{path.name}: left {', '.join(left)}" if left else ""
