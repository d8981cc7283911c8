"""Kills trainings with SIGKILL and looks at what the next process makes of it.

A run is killed and started again until it ends; then its weights must be those
of a run that was never killed, to the bit.
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
# Kills of one run, after which it may end.
_KILLS_PER_RUN = 8
# A step that a log says was saved, or that a run goes on from.
_SAVED = re.compile(r"Saved \S*model\.ckpt-(\d+)\.")
_RESUMED = re.compile(r"Resuming from \S*model\.ckpt-\d+, at step (\d+)")


class Servers:
  """Processes that run jobs, each one at a time; a scope ends them."""

  def __init__(self, module: str, count: int) -> None:
    self._free: queue.Queue[subprocess.Popen] = queue.Queue()
    self._all = [_started(module) for _ in range(count)]
    for server in self._all:
      self._free.put(server)

  def run(self, **job: object) -> dict:
    """Runs a job; returns what came of it."""
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


def _started(module: str) -> subprocess.Popen:
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
class Whole:
  """A run that was never killed."""

  # Of its last checkpoint, by the file's name; one for each way to take it.
  weights: tuple[dict[str, bytes], ...]
  operations: list[str]  # On files, in their order.
  seconds: float
  training_seconds: float  # From its first save.


def whole_run(
  servers: Servers, folder: pathlib.Path, name: str = "whole"
) -> Whole:
  """Returns what a run is that nobody kills, in a folder of this name."""
  path = folder / name
  result = servers.run(output_dir=str(path), from_first_save=True)
  if result["status"]:
    raise RuntimeError((folder / f"{name}.log").read_text())
  return Whole(
    (weights_of(path),),
    json.loads((folder / f"{name}.operations").read_text()),
    result["seconds"],
    result["seconds"] - result["first_save_s"],
  )


def weights_of(run: pathlib.Path) -> dict[str, bytes]:
  """Returns the files of a run's newest checkpoint."""
  steps = [
    int(p.stem.rpartition("-")[2]) for p in run.glob("model.ckpt-*.index")
  ]
  newest = run.glob(f"model.ckpt-{max(steps, default=0)}.*")
  return {path.name: path.read_bytes() for path in newest}


def save_operations(whole: Whole) -> list[int]:
  """Returns the numbers of the operations of a save that drops an older one."""
  saves = [i for i, name in enumerate(whole.operations) if "SaveV2" in name]
  # From the end of one save to that of the next.
  return list(range(saves[4] + 1, saves[5] + 1))


def attack_at_operations(
  operations: list[int],
  servers: Servers,
  whole: Whole,
  folder: pathlib.Path,
  what: str = "a training",
) -> outcomes.Outcome:
  """Kills a run at each of these operations on files, and lets it end."""
  found = outcomes.Outcome(f"kill -9 at file operations of {what}")

  def tried(index: int) -> str:
    path = folder / f"operation{index}"
    killed = servers.run(output_dir=str(path), kill_at_operation=index)
    if not killed["was_killed"]:
      return f"operation {index}: was not killed"
    ended = servers.run(output_dir=str(path))
    return fault_of(path, ended, whole)

  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for fault in pool.map(tried, operations):
      found.add("resumed to the same weights, to the bit", fault)
  return found


def attack_at_random(
  num_kills: int,
  seed: int,
  servers: Servers,
  whole: Whole,
  folder: pathlib.Path,
  what: str = "a training",
) -> outcomes.Outcome:
  """Kills runs at random moments, several times each, and lets them end."""
  found = outcomes.Outcome(f"kill -9 at random moments of {what}")
  counts = [_KILLS_PER_RUN] * (num_kills // _KILLS_PER_RUN)
  if num_kills % _KILLS_PER_RUN:
    counts.append(num_kills % _KILLS_PER_RUN)

  def tried(index: int) -> tuple[int, str]:
    rng = random.Random(f"{seed} {index}")
    folders = (folder / f"run{index}-{i}" for i in itertools.count())
    return _killed_often(servers, whole, folders, counts[index], rng)

  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for num_killed, fault in pool.map(tried, range(len(counts))):
      right = max(num_killed - bool(fault), 0)
      found.counts["resumed to the same weights, to the bit"] += right
      if fault:
        found.add("", fault)
  return found


def _killed_often(
  servers: Servers,
  whole: Whole,
  folders: Iterator[pathlib.Path],
  num_kills: int,
  rng: random.Random,
) -> tuple[int, str]:
  """Kills a run so often, and others if it ends before.

  Returns:
    How many kills there were, and the fault that ended them, if any.
  """
  path = next(folders)
  num_killed = 0
  while num_killed < num_kills:
    # Starting takes most of a short run, so most kills are in what follows.
    from_save = rng.random() < 0.75
    seconds = whole.training_seconds if from_save else whole.seconds
    # A part of it, or else every run would end before the last kill.
    kill_after = rng.uniform(0, seconds / (4 if from_save else 1))
    ended = servers.run(
      output_dir=str(path), kill_after_s=kill_after, from_first_save=from_save
    )
    if ended["was_killed"]:
      num_killed += 1
    elif fault := fault_of(path, ended, whole):
      return num_killed, fault
    else:
      path = next(folders)
  ended = servers.run(output_dir=str(path))
  return num_killed, fault_of(path, ended, whole)


def fault_of(path: pathlib.Path, ended: dict, whole: Whole) -> str:
  """Returns what is wrong with a run that has ended, "" if nothing is."""
  log = path.with_name(path.name + ".log").read_text()
  if ended["status"] or "Traceback" in log:
    return f"{path.name}: status {ended['status']}: {log[-2000:]}"
  saved = 0
  for line in log.splitlines():
    if match := _SAVED.search(line):
      saved = int(match[1])
    elif (match := _RESUMED.search(line)) and int(match[1]) < saved:
      return f"{path.name}: step {saved} was saved, but lost: {line}"
  if weights_of(path) not in whole.weights:
    return f"{path.name}: other weights"
  left = [p.name for p in path.iterdir() if ".tmp-" in p.name]
  return f"{path.name}: left {', '.join(left)}" if left else ""
