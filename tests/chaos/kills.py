"""Kills runs with SIGKILL and checks that the next process resumes.

TF_CPP_MIN_LOG_LEVEL=3 python -m tests.chaos.kills 300

kills processes at every file operation of a save, with and without training,
and 300 trainings at random moments. A killed run is started again until it
ends. Its checkpoint must equal that of a run that was never killed, to the bit,
no step that was logged as saved may be lost, and no unfinished file may remain.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import re
import sys
import tempfile

from tests.chaos import killed
from tests.support import checkout, forks

# Log lines with the step that is saved, or resumed from.
_STEP = re.compile(
  r"Saved \S*model\.ckpt-(\d+)\.|Resuming from \S*ckpt-\d+, at step (\d+)"
)


class Attacks:
  """Runs of a kind (see killed.py) in a folder, killed and started again.

  Attributes:
    operations: the names of the file operations of a run without a kill.
  """

  def __init__(self, server: str, kind: str, folder: pathlib.Path):
    self._server, self._kind, self._folder = server, kind, folder
    if kind == "training":
      killed.prepare(folder)
    whole = folder / "whole"
    assert self._run(whole) == 0, whole.with_suffix(".log").read_text()
    self._weights = read_weights(whole)
    self.operations = json.loads(whole.with_suffix(".operations").read_text())

  def _run(self, path, kill_at=-1, seconds=0.0):
    """Runs to the end or to a kill; returns the exit status."""
    arguments = ["-m", "tests.chaos.killed", self._kind, path, kill_at, seconds]
    with open(path.with_suffix(".log"), "a") as log, open(os.devnull) as empty:
      files = (empty.fileno(), log.fileno(), log.fileno())
      arguments = [*map(str, arguments)]
      cwd = str(checkout.ROOT)
      return forks.run(self._server, arguments, cwd, os.environ, files)

  def one_save(self) -> list[int]:
    """Returns the operations from a save to the next, as indices."""
    saves = [i for i, x in enumerate(self.operations) if "SaveV2" in x]
    # From the third save on, each save also removes an old checkpoint.
    return list(range(saves[4] + 1, saves[5] + 1))

  def kill(self, moments: list[list[tuple[int, float]]]) -> list[str]:
    """Kills a run for each list of moments; returns the faults.

    Args:
      moments: for each run, when its first, second, ... process is killed: the
        index of an operation, and seconds after it.
    """
    folders = (self._folder / f"run{i}" for i in range(len(moments)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
      return [*filter(None, pool.map(self._kill, folders, moments))]

  def _kill(self, path, moments):
    """Kills a run at some moments, lets it end, and returns its fault."""
    for kill_at, seconds in moments:
      status = self._run(path, kill_at, seconds)
      # A run may end before a random moment.
      if status > 0 or (status == 0 and not seconds):
        return f"{path.name}: status {status} at operation {kill_at}"
    status = self._run(path)
    log = path.with_suffix(".log").read_text()
    if status or "Traceback" in log:
      return f"{path.name}: status {status}: {log[-2000:]}"
    saved = 0
    for line in log.splitlines():
      if match := _STEP.search(line):
        step = int(match[1] or match[2])
        if step < saved:
          return f"{path.name}: step {saved} was saved, but lost: {line}"
        saved = step
    if read_weights(path) != self._weights:
      return f"{path.name}: other weights"
    left = [p.name for p in path.iterdir() if ".tmp-" in p.name]
    return f"{path.name}: left {', '.join(left)}" if left else ""

  def random_moments(self, num_runs: int, seed: int):
    """Returns two random moments for each of some runs."""
    rng = random.Random(seed)

    def moment():
      return rng.randrange(len(self.operations)), rng.uniform(0.001, 0.5)

    return [[moment(), moment()] for _ in range(num_runs)]


def read_weights(run):
  """Returns the files of a run's newest checkpoint."""
  steps = [
    int(p.stem.rpartition("-")[2]) for p in run.glob("model.ckpt-*.index")
  ]
  newest = run.glob(f"model.ckpt-{max(steps, default=0)}.*")
  return {path.name: path.read_bytes() for path in newest}


def main(num_kills: str) -> int:
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    num_faults = 0
    with forks.server(folder) as server:
      for kind in ("saves", "training"):
        (folder / kind).mkdir()
        attacks = Attacks(server, kind, folder / kind)
        moments = [[(i, 0.0)] for i in attacks.one_save()]
        if kind == "saves":
          moments = [[(i, 0.0)] for i in range(len(attacks.operations))]
        else:
          moments += attacks.random_moments(int(num_kills) // 2, seed=1)
        faults = attacks.kill(moments)
        print(f"{kind}: {len(moments)} runs killed, {len(faults)} wrong")
        print(*faults, sep="\n", end="\n" * bool(faults))
        num_faults += len(faults)
  return int(num_faults > 0)


if __name__ == "__main__":
  sys.exit(main(*sys.argv[1:]))
