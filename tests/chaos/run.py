"""Attacks training runs, files and disks.

TF_CPP_MIN_LOG_LEVEL=3 python -m tests.chaos.run --kills=300 --damaged=2000 \
    --disks=100 --write

Prints a Markdown table; --write also replaces the table in docs/evidence.md.
Exits with status 1 if anything went wrong. Each number is a number of tries;
0 skips the attack. The same seed repeats the same tries.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from tests.chaos import bert_run, damage, disks, kills, outcomes

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "evidence.md"
_TABLE = re.compile(r"(?m)^\| attack \|.*\n(?:\|.*\n)+")


def main(arguments: list[str]) -> int:
  """Runs all attacks; returns the exit status."""
  options = _options(arguments)
  logging.set_verbosity(logging.ERROR)
  tf.get_logger().setLevel("ERROR")
  results: dict[str, outcomes.Outcome] = {}
  with tempfile.TemporaryDirectory(prefix="bert_tf_chaos_") as folder:
    for name, attack in _attacks(options).items():
      start = time.monotonic()
      place = pathlib.Path(folder) / name
      place.mkdir()
      with (
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stderr(nothing),
      ):
        outcome = attack(place)
      results[name] = outcome
      minutes = (time.monotonic() - start) / 60
      print(
        f"{outcome.attack}: {outcome.tries:,} tries in {minutes:.1f} min, "
        f"{len(outcome.faults)} wrong",
        *outcome.faults[:20],
        sep="\n  ",
        flush=True,
      )
  table = outcomes.table(
    list(results.values()), datetime.date.today().isoformat()
  )
  print(table, end="")
  if options.write:
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda _: table, page), encoding="utf-8")
  return int(any(outcome.faults for outcome in results.values()))


def _options(arguments: list[str]) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m tests.chaos.run",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  for name, what in (
    ("kills", "kill -9 of trainings at random moments"),
    ("damaged", "damaged files"),
    ("disks", "files written to a disk that is too small"),
  ):
    parser.add_argument(f"--{name}", type=int, default=0, help=what)
  parser.add_argument(
    "--seed", type=int, default=1, help="of all random numbers"
  )
  parser.add_argument("--write", action="store_true", help="into the page")
  return parser.parse_args(arguments)


def _attacks(
  options: argparse.Namespace,
) -> dict[str, Callable[[pathlib.Path], outcomes.Outcome]]:
  """Returns the requested attacks; each takes an empty folder."""
  seed = options.seed
  attacks: dict[str, Callable[[pathlib.Path], outcomes.Outcome]] = {}
  if options.kills:
    attacks["saves"] = _kill_saves
    attacks["operations"] = lambda folder: _kill_training(folder, None, seed)
    attacks["kills"] = lambda folder: _kill_training(
      folder, options.kills, seed
    )
  if options.damaged:
    attacks["damaged"] = lambda f: damage.attack(options.damaged, seed, f)
  if options.disks:
    attacks["disks"] = lambda f: disks.attack(options.disks, seed, f)
  return attacks


def _kill_saves(folder: pathlib.Path) -> outcomes.Outcome:
  """Kills processes that only save, at every operation of all saves."""
  with kills.Servers("save_run", _num_servers()) as servers:
    reference = kills.run_unkilled(servers, folder)
    operations = list(range(len(reference.operations)))
    return kills.attack_at_operations(
      operations, servers, reference, folder, "saves"
    )


def _kill_training(
  folder: pathlib.Path, num_kills: int | None, seed: int
) -> outcomes.Outcome:
  """Kills runs `num_kills` times; None: once per file operation of a save."""
  bert_run.prepare(folder)
  with kills.Servers("bert_run", _num_servers()) as servers:
    reference = kills.run_unkilled(servers, folder)
    if num_kills:
      return kills.attack_at_random(num_kills, seed, servers, reference, folder)
    operations = kills.save_operations(reference)
    return kills.attack_at_operations(operations, servers, reference, folder)


def _num_servers() -> int:
  return min(os.cpu_count() or 1, 8)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
