"""Whole processes of this project and of its peers, side by side.

From the command to its end, imports and compilation included: a run's first
training step, the prediction of one text, fine-tuning on MRPC or SQuAD.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from research.benchmarks import steps
from research.benchmarks.config import BenchmarkConfig
from research.benchmarks.peers import step_timing

_PREDICT = os.path.join(steps.PEERS, "transformers_predict.py")
_FINE_TUNE = os.path.join(steps.PEERS, "transformers_baseline.py")
_TEXT = "It returns a [MASK]."
_OURS = "bert_tf"
_TORCH_MODULES, _TORCH_INSTALL = steps.TORCH


@dataclasses.dataclass(frozen=True)
class Process:
  """A command, whose interpreter is None where something is missing."""

  arguments: tuple[str, ...]
  python: str | None = sys.executable
  install: str = ""


@dataclasses.dataclass(frozen=True)
class Measured:
  """What one process took."""

  seconds: float  # On the clock.
  cpu_seconds: float  # Of all cores, with its own child processes.
  peak_mb: float


def measure_start(config: BenchmarkConfig) -> None:
  """Prints what a new run takes to the end of its first training step."""
  sizes = steps.shared_sizes(config, "start")
  with tempfile.TemporaryDirectory() as folder:
    peers = {
      program.name: Process(
        (program.script, json.dumps({**sizes, "compiled": program.compiled})),
        steps.python_of(program, config),
        program.install,
      )
      for program in steps.PROGRAMS
      if program.is_peer
      and program.can_run("start", config.precision, config.device)
    }
    ours = Process(_first_step(sizes, folder))
    _measure(config, steps.describe(sizes), {_OURS: ours, **peers})


def measure_predict(config: BenchmarkConfig) -> None:
  """Prints what it takes to fill the mask of one text, from a cold start.

  Raises:
    ValueError: without `model`.
  """
  model = config.needed("model")
  ours = "-m", "bert_tf", "fill-mask", f"--model={model}", f"--text={_TEXT}"
  peer = _PREDICT, config.hf_model_dir or model, _TEXT
  _measure(
    config,
    f"predict, the mask of one text, {model}",
    {
      _OURS: Process(ours),
      "transformers": Process(
        peer, steps.find_python(_TORCH_MODULES, config), _TORCH_INSTALL
      ),
    },
  )


def measure_fine_tuning(config: BenchmarkConfig) -> None:
  """Prints what an epoch with its evaluation takes, end to end.

  It is one of MRPC or, with `train_file`, of SQuAD, whose questions in
  `predict_file` are answered.

  Raises:
    ValueError: without `model`, or without files.
  """
  model = config.needed("model")
  data, command, files = _fine_tuned(config)
  shared = (
    *files,
    f"--max_seq_length={config.max_seq_length}",
    f"--train_batch_size={config.batch_size}",
    "--num_train_epochs=1",
  )
  with tempfile.TemporaryDirectory() as folder:
    # A new folder each time: {round} is its number.
    output_dir = f"--output_dir={os.path.join(folder, '{round}')}"
    ours = "-m", "bert_tf", *command, *shared, f"--model={model}", output_dir
    peer = (
      *(_FINE_TUNE, f"--task_name={data}", *shared),
      f"--model_dir={config.hf_model_dir or model}",
      f"{output_dir}-of-peer",
    )
    modules = (*_TORCH_MODULES, "sklearn", "scipy", "absl")
    install = f"{_TORCH_INSTALL} scikit-learn scipy absl-py"
    _measure(
      config,
      f"finetune, an epoch of {data}, {model}",
      {
        _OURS: Process(ours),
        "transformers": Process(
          peer, steps.find_python(modules, config), install
        ),
      },
    )


def _fine_tuned(
  config: BenchmarkConfig,
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
  """Returns the data's name, our command and the flags of the files."""
  if config.train_file:
    return (
      "SQuAD",
      ("squad", "--do_train", "--do_predict"),
      (
        f"--train_file={config.train_file}",
        f"--predict_file={config.needed('predict_file')}",
      ),
    )
  return (
    "MRPC",
    ("classifier", "--task_name=MRPC", "--do_train", "--do_eval"),
    (f"--data_dir={config.needed('data_dir')}",),
  )


def _first_step(sizes: Mapping[str, Any], folder: str) -> tuple[str, ...]:
  """Returns the command of a run of one step, and makes its files."""
  from bert_tf import model_config
  from bert_tf.data import records

  settings = step_timing.Settings(**sizes, compiled=False)
  config = model_config.BertConfig(**settings.sizes, type_vocab_size=2)
  names = ("bert_config.json", "data.tfrecord")
  config_file, data_file = (os.path.join(folder, name) for name in names)
  with open(config_file, "w", encoding="utf-8") as file:
    file.write(config.to_json_string())
  batch = step_timing.batch_of(settings)
  weights = batch.pop("masked_lm_weights")
  with records.open_records([data_file]) as writer:
    for i in range(settings.batch_size):
      ints = {name: values[i].tolist() for name, values in batch.items()}
      floats = {"masked_lm_weights": weights[i].tolist()}
      features = records.encode_features(ints, floats)
      writer.write(records.encode_example(features))
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
  """Runs the processes in turn and prints a table.

  Raises:
    ValueError: if one of them fails.
  """
  steps.name_missing(
    {
      n: process.install
      for n, process in processes.items()
      if not process.python
    }
  )
  names = [name for name, process in processes.items() if process.python]
  found: dict[str, list[Measured]] = {name: [] for name in names}
  for number in range(config.num_rounds):
    # Back and forth, so that no one always follows the same other one.
    for name in names[:: -1 if number % 2 else 1]:
      arguments = processes[name].arguments
      words = [word.replace("{round}", str(number)) for word in arguments]
      command = [str(processes[name].python), *words]
      found[name].append(run(command, name, steps.environment(name == _OURS)))
  _print_table(title, found)


def run(
  command: Sequence[str], name: str, environment: Mapping[str, str]
) -> Measured:
  """Runs a command to its end and returns what it took.

  Its memory is never less than this process's, which has to be small: the
  system counts what a process was before it became a program.

  Raises:
    ValueError: if it fails, with the last line that it wrote.
  """
  with _output() as (file, last_line):
    start = time.perf_counter()
    process = subprocess.Popen(
      command, stdout=file, stderr=file, env=environment
    )
    # Of this process alone, unlike getrusage.
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
      raise ValueError(
        f"{name} ended with status {process.returncode}: {last_line()}"
      )
  cpu_seconds = usage.ru_utime + usage.ru_stime
  return Measured(seconds, cpu_seconds, step_timing.peak_bytes(usage) / 1e6)


@contextlib.contextmanager
def _output() -> Iterator[tuple]:
  """A file for what a process writes, and what returns its last line."""
  with tempfile.TemporaryFile() as file:

    def last_line() -> str:
      file.seek(0)
      lines = file.read().decode(errors="replace").split("\n")
      return next((x for x in reversed(lines) if x.strip()), "it wrote nothing")

    yield file, last_line


def _print_table(title: str, found: Mapping[str, Sequence[Measured]]) -> None:
  """Prints a row for each program."""
  medians = {
    name: statistics.median(x.seconds for x in rounds)
    for name, rounds in found.items()
  }
  peers = [seconds for name, seconds in medians.items() if name != _OURS]
  print(title)
  print(f"{'':18}{'s':>8}{'rounds':>14}{'CPU s':>8}{'x peer':>8}{'peak MB':>9}")
  for name, rounds in found.items():
    seconds = [x.seconds for x in rounds]
    spread = f"{min(seconds):.1f}-{max(seconds):.1f}"
    cpu_seconds = statistics.median(x.cpu_seconds for x in rounds)
    ratio = f"{min(peers) / medians[name]:.2f}" if peers else "-"
    peak = max(x.peak_mb for x in rounds)
    print(
      f"{name:18}{medians[name]:8.1f}{spread:>14}{cpu_seconds:8.1f}{ratio:>8}"
      f"{peak:9,.0f}"
    )
  print("x peer: times as fast as the fastest peer, whole processes.")
