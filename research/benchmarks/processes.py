"""Whole processes of bert_tf and of its peers, timed side by side.

Times include imports and compilation. Measures the first training step of a
run, the prediction of one text, and fine-tuning on MRPC or SQuAD.
"""

import collections
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from research.benchmarks import steps
from research.benchmarks.config import BenchmarkConfig
from research.benchmarks.peers import step_timing

_TEXT = "It returns a [MASK]."
_OURS = "bert_tf"
_TORCH_MODULES, _TORCH_INSTALL = steps.TORCH


@dataclasses.dataclass(frozen=True)
class Process:
  """A Python command of bert_tf or of a peer."""

  arguments: tuple[str, ...]
  # The interpreter; None if no given interpreter has the packages.
  python: str | None = sys.executable
  install: str = ""  # Command that installs the packages.


@dataclasses.dataclass(frozen=True)
class Usage:
  """Resources that a process used."""

  seconds: float  # Wall time.
  cpu_seconds: float  # CPU time, summed over cores and child processes.
  peak_mb: float  # Peak memory.


def measure_start(config: BenchmarkConfig) -> None:
  """Prints the time from the start of a new run to its first step."""
  sizes = steps.shared_sizes(config, "start")
  with tempfile.TemporaryDirectory() as folder:
    peers = {
      program.name: Process(
        (program.script, json.dumps({**sizes, "compiled": program.compiled})),
        steps.choose_python(program, config),
        program.install,
      )
      for program in steps.PROGRAMS
      if program.is_peer
      and program.can_run("start", config.precision, config.device)
    }
    ours = Process(_prepare_run(sizes, folder))
    _measure(config, steps.describe(sizes), {_OURS: ours, **peers})


def measure_predict(config: BenchmarkConfig) -> None:
  """Prints the time to fill the mask of one text, from a cold start."""
  model = config.needed("model")
  ours = "-m", "bert_tf", "fill-mask", f"--model={model}", f"--text={_TEXT}"
  script = os.path.join(steps.PEERS, "transformers_predict.py")
  peer = Process(
    (script, model, _TEXT),
    steps.find_python(_TORCH_MODULES, config),
    _TORCH_INSTALL,
  )
  processes = {_OURS: Process(ours), "transformers": peer}
  _measure(config, f"predict, the mask of one text, {model}", processes)


def measure_fine_tuning(config: BenchmarkConfig) -> None:
  """Prints the time of one epoch and its evaluation, end to end.

  Without `train_file`, fine-tunes and evaluates on MRPC. With `train_file`,
  fine-tunes on SQuAD and answers the questions in `predict_file`.
  """
  model = config.needed("model")
  if config.train_file:
    data, command = "SQuAD", ["squad", "--do_train", "--do_predict"]
    settings = ["train_file", "predict_file"]
  else:
    data, command = "MRPC", ["classifier", "--task_name=MRPC"]
    command += ["--do_train", "--do_eval"]
    settings = ["data_dir"]
  shared = (
    *(f"--{name}={config.needed(name)}" for name in settings),
    f"--max_seq_length={config.max_seq_length}",
    f"--train_batch_size={config.batch_size}",
    "--num_train_epochs=1",
  )
  with tempfile.TemporaryDirectory() as folder:
    # Each round has its own folder: {round} is replaced by its number.
    output_dir = f"--output_dir={os.path.join(folder, '{round}')}"
    ours = "-m", "bert_tf", *command, *shared, f"--model={model}", output_dir
    peer = (
      os.path.join(steps.PEERS, "transformers_baseline.py"),
      *(f"--task_name={data}", *shared),
      f"--model_dir={model}",
      f"{output_dir}-of-peer",
    )
    modules = (*_TORCH_MODULES, "sklearn", "scipy", "absl")
    install = f"{_TORCH_INSTALL} scikit-learn scipy absl-py"
    baseline = Process(peer, steps.find_python(modules, config), install)
    processes = {_OURS: Process(ours), "transformers": baseline}
    _measure(config, f"finetune, an epoch of {data}, {model}", processes)


def _prepare_run(sizes: Mapping[str, Any], folder: str) -> tuple[str, ...]:
  """Writes the files of a run of one step and returns its command."""
  from bert_tf.data import records
  from bert_tf.model import model_config

  settings = step_timing.Settings(**sizes, compiled=False)
  config = model_config.BertConfig(**settings.sizes, type_vocab_size=2)
  names = ("bert_config.json", "data.tfrecord")
  config_file, data_file = (os.path.join(folder, name) for name in names)
  with open(config_file, "w", encoding="utf-8") as file:
    file.write(config.to_json_string())
  batch = settings.batch()
  weights = batch.pop("masked_lm_weights")
  with records.open_writer([data_file]) as writer:
    for i in range(settings.batch_size):
      ints = {name: values[i].tolist() for name, values in batch.items()}
      floats = {"masked_lm_weights": weights[i].tolist()}
      writer.write(records.encode_example(ints, floats))
  return (
    *("-m", "bert_tf", "pretrain", "--do_train", f"--input_file={data_file}"),
    f"--bert_config_file={config_file}",
    f"--output_dir={os.path.join(folder, '{round}')}",
    f"--train_batch_size={settings.batch_size}",
    f"--max_seq_length={settings.length}",
    f"--max_predictions_per_seq={settings.num_predictions}",
    f"--precision={settings.precision}",
    *("--num_train_steps=1", "--num_warmup_steps=0", "--learning_rate=1e-4"),
  )


def _measure(
  config: BenchmarkConfig, title: str, processes: Mapping[str, Process]
) -> None:
  """Runs the processes in turn and prints a table of their usage."""
  installs = {n: p.install for n, p in processes.items() if not p.python}
  steps.name_missing(installs)
  names = [name for name, process in processes.items() if process.python]
  usages: dict[str, list[Usage]] = collections.defaultdict(list)
  for name in steps.in_turn(names, config.num_rounds):
    number = str(len(usages[name]))
    words = [w.replace("{round}", number) for w in processes[name].arguments]
    command = [str(processes[name].python), *words]
    usages[name].append(run(command, name, steps.environment(name == _OURS)))
  medians = {
    name: statistics.median(x.seconds for x in usages[name]) for name in names
  }
  peers = [seconds for name, seconds in medians.items() if name != _OURS]
  print(title)
  print(f"{'':18}{'s':>8}{'rounds':>14}{'CPU s':>8}{'x peer':>8}{'peak MB':>9}")
  for name, median in medians.items():
    seconds = [x.seconds for x in usages[name]]
    spread = f"{min(seconds):.1f}-{max(seconds):.1f}"
    cpu_seconds = statistics.median(x.cpu_seconds for x in usages[name])
    ratio = f"{min(peers) / median:.2f}" if peers else "-"
    peak = max(x.peak_mb for x in usages[name])
    print(
      f"{name:18}{median:8.1f}{spread:>14}{cpu_seconds:8.1f}{ratio:>8}"
      f"{peak:9,.0f}"
    )
  print("x peer: speed relative to the fastest peer, whole processes.")


def run(
  command: Sequence[str], name: str, environment: Mapping[str, str]
) -> Usage:
  """Runs a command to its end and returns its resource usage.

  The reported memory is never below that of this process, since a new process
  begins as a copy of this one.

  Raises:
    ValueError: if the command fails, with the last line of its output.
  """
  with tempfile.TemporaryFile() as file:
    start = time.perf_counter()
    process = subprocess.Popen(
      command, stdout=file, stderr=file, env=environment
    )
    # Unlike getrusage, wait4 reports the usage of a single child.
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
      file.seek(0)
      reason = steps.last_line(file.read().decode(errors="replace"))
      raise ValueError(
        f"{name} ended with status {process.returncode}: {reason}"
      )
  cpu_seconds = usage.ru_utime + usage.ru_stime
  return Usage(seconds, cpu_seconds, step_timing.peak_bytes(usage) / 1e6)
