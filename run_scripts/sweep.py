r"""Fine-tunes with several seeds and settings, and compares the results.

python run_scripts/sweep.py --seeds=1,2,3 --metric=f1 \
    --grid='learning_rate=5e-5,3e-5;train_batch_size=16,32' \
    classifier --task_name=MRPC --data_dir=GLUE/MRPC --do_train --do_eval \
    --model=uncased_L-12_H-768_A-12 --output_dir=out

The words after the options are those of a bert-tf command. Each run is such a
command with its own folder in output_dir. sweep_results.tsv there has a row for
each combination of settings, the best mean first. The same command continues
after an interruption: finished runs are skipped, and others resume.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from bert_tf.files import atomic, paths, text_lines

_ROOT = str(pathlib.Path(__file__).resolve().parents[1])
_RUN_FILE = "sweep_run.json"  # The command and results of a finished run.

# Files of results in a run's folder, with the prefix of their names.
RESULTS = {"eval_results.txt": "", "test_results.txt": "test_"}


def run_module(
  module: str, words: Sequence[str], output: IO[str] | None = None
) -> int:
  """Runs a Python module with arguments; returns its exit status.

  Ctrl-C lets the module save a checkpoint before KeyboardInterrupt is raised. A
  second one kills it.
  """
  folders = filter(None, (_ROOT, os.environ.get("PYTHONPATH")))
  process = subprocess.Popen(
    [sys.executable, "-m", module, *words],
    stdout=output,
    stderr=output,
    env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    start_new_session=True,  # Only this process gets Ctrl-C.
  )
  try:
    return process.wait()
  except KeyboardInterrupt:
    print("Waiting until the run has saved a checkpoint.", file=sys.stderr)
    process.terminate()
    try:
      process.wait()
    except KeyboardInterrupt:
      process.kill()
    raise


def read_results(
  folder: str, files: Mapping[str, str] = RESULTS
) -> dict[str, float]:
  """Returns the results in a run's folder by name.

  Args:
    folder: the output_dir of the run.
    files: the files of results, with the prefix of their names.
  """
  results = {}
  for file, prefix in files.items():
    path = os.path.join(folder, file)
    if paths.exists(path):
      for line in text_lines.read_text(path).splitlines():
        name, _, value = line.partition(" = ")
        results[prefix + name] = float(value)
  return results


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
  """Returns the mean and the sample standard deviation.

  The deviation of a single value, or of values that are not finite, is NaN.
  """
  has_spread = len(values) > 1 and all(map(math.isfinite, values))
  spread = statistics.stdev(values) if has_spread else math.nan
  return statistics.fmean(values), spread


def summarize(
  settings: Mapping[str, str], metric: str, runs: Mapping[str, dict[str, float]]
) -> dict[str, Any]:
  """Returns a row of the table: the settings and the results of their runs.

  Args:
    settings: values by flag.
    metric: the result that comes first, with its best run.
    runs: results by folder; {} for a failed run.
  """
  names = sorted({n for r in runs.values() for n in r} - {"global_step"})
  row: dict[str, Any] = {**settings, "num_runs": len(runs)}
  for name in [metric, *(n for n in names if n != metric)]:
    values = [results.get(name, math.nan) for results in runs.values()]
    row[f"{name}_mean"], row[f"{name}_std"] = mean_and_spread(values)
    if name == metric:
      best = max(runs, key=lambda run: goodness(metric, runs[run].get(metric)))
      row["best"], row["best_run"] = runs[best].get(metric), best
  return row


def goodness(metric: str, value: float | None) -> float:
  """Returns a number that is higher for a better result; -inf for none."""
  if value is None or math.isnan(value):
    return -math.inf
  return -value if "loss" in metric else value


def _execute(folder: str, words: Sequence[str]) -> dict[str, float]:
  """Executes a run unless it is finished; returns {} if it failed."""
  path = os.path.join(folder, _RUN_FILE)
  if paths.exists(path):
    saved = json.loads(text_lines.read_text(path))
    if saved["command"] != list(words):
      sys.exit(
        f"{folder} has a run with other flags; set another --output_dir."
      )
    return saved["results"]
  if status := run_module("bert_tf", words):
    print(f"{folder} failed with status {status}.", file=sys.stderr)
    return {}
  results = read_results(folder)
  text = json.dumps({"command": words, "results": results}, indent=1)
  atomic.write_lines(path, [text])
  return results


def main() -> None:
  """Executes the runs of the command line and writes the table."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--seeds", default="12345", help="Seeds, such as 1,2,3.")
  parser.add_argument("--grid", default="", help="Flags: a=1,2;b=3,4.")
  parser.add_argument("--metric", required=True, help="Ranks the settings.")
  parser.add_argument("command", nargs=argparse.REMAINDER)
  options = parser.parse_args()
  output_dirs = [w for w in options.command if w.startswith("--output_dir=")]
  if not output_dirs:
    parser.error("the command needs --output_dir=FOLDER.")
  output_dir = output_dirs[-1].partition("=")[2]
  grid = [part.partition("=") for part in options.grid.split(";") if part]
  signal.signal(signal.SIGTERM, signal.default_int_handler)
  rows, failed = [], False
  for values in itertools.product(*(v.split(",") for *_, v in grid)):
    settings = {name: value for (name, *_), value in zip(grid, values)}
    flags = [f"--{name}={value}" for name, value in settings.items()]
    runs = {}
    for seed in options.seeds.split(","):
      name = "_".join([*map("_".join, settings.items()), f"seed_{seed}"])
      folder = os.path.join(output_dir, name)
      own = [*flags, f"--seed={seed}", f"--output_dir={folder}"]
      runs[name] = _execute(folder, [*options.command, *own])
      failed |= not runs[name]
    if not failed and not any(options.metric in r for r in runs.values()):
      has = ", ".join(runs[name])
      sys.exit(f"the runs have no result {options.metric}, only {has}.")
    rows.append(summarize(settings, options.metric, runs))
  mean = f"{options.metric}_mean"
  rows.sort(key=lambda row: -goodness(options.metric, row[mean]))
  lines = ["\t".join(rows[0])]
  lines += ["\t".join(map(str, map(row.get, rows[0]))) for row in rows]
  atomic.write_lines(os.path.join(output_dir, "sweep_results.tsv"), lines)
  print("\n".join(lines))
  if failed:
    sys.exit("some runs failed; the same command tries them again.")


if __name__ == "__main__":
  try:
    main()
  except KeyboardInterrupt:
    sys.exit(130)
