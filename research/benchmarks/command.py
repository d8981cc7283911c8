r"""Measures speed on this machine, next to that of other projects.

python run_scripts/benchmark.py train --peer_python=peers/bin/python \
    --num_rounds=3

Benchmarks: tokenizer, data, train, forward, start, predict, finetune, serving,
runtimes.
"""

import importlib

from bert_tf.cli import command, config_flags
from research import start
from research.benchmarks import config as config_lib

# Module in research.benchmarks, function and arguments of each benchmark.
BENCHMARKS: dict[str, tuple[str, ...]] = {
  "tokenizer": ("data", "measure_tokenizer"),
  "data": ("data", "measure_data"),
  "train": ("steps", "measure", "train"),
  "forward": ("steps", "measure", "forward"),
  "start": ("processes", "measure_start"),
  "predict": ("processes", "measure_predict"),
  "finetune": ("processes", "measure_fine_tuning"),
  "serving": ("open_loop", "measure"),
  "runtimes": ("runtimes", "measure"),
}


def main(name: str = "") -> None:
  """Runs a benchmark, which prints a table."""
  config = config_flags.build(config_lib.BenchmarkConfig)
  if name not in BENCHMARKS:
    raise ValueError(f"name a benchmark: {', '.join(BENCHMARKS)}.")
  module, function, *arguments = BENCHMARKS[name]
  with start.needs_extras("benchmarks"):
    benchmark = importlib.import_module(f"research.benchmarks.{module}")
  getattr(benchmark, function)(config, *arguments)


def run() -> None:
  """Runs the command with the flags of the command line; never returns."""
  config_flags.define(config_lib.BenchmarkConfig)
  command.run(main, __doc__, arguments="[BENCHMARK]")
