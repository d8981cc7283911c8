"""Steps of this project and of its peers, side by side on this machine.

Each one runs in processes of its own, one a round, in turn; nothing here
imports TensorFlow, whose memory would count into theirs.
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.files import json_files
from bert_tf.plots import style
from research.benchmarks import config as config_lib
from research.benchmarks.config import BenchmarkConfig
from research.benchmarks.peers import step_timing

_OURS = "research.benchmarks.ours_steps"
_OURS_ON_JAX = "research.benchmarks.jax_steps"
_FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = str(_FOLDER.parents[1])
PEERS = str(_FOLDER / "peers")
_TORCH_STEPS = os.path.join(PEERS, "torch_steps.py")
_KERAS_HUB_STEPS = os.path.join(PEERS, "keras_hub_steps.py")
_MODEL_GARDEN_STEPS = os.path.join(PEERS, "model_garden_steps.py")
_ORIGINAL_STEPS = os.path.join(PEERS, "original_steps.py")
_ORIGINAL_FILES = {"modeling.py", "optimization.py", "run_pretraining.py"}


@dataclasses.dataclass(frozen=True)
class Program:
  """A program that times steps, and what it needs beside NumPy."""

  name: str
  script: str  # A peer's file, or a module of ours.
  compiled: bool | str
  modules: tuple[str, ...] = ()  # () is found in the running interpreter.
  install: str = ""
  runs_on_gpu: bool = False
  runs_forward: bool = True
  runs_bfloat16: bool = True
  needs_original_dir: bool = False
  keras_backend: str = "tensorflow"

  def can_run(self, task: str, precision: str, device: str) -> bool:
    """Whether it has steps of that kind."""
    return (
      (self.runs_forward or task != "forward")
      and (self.runs_bfloat16 or precision != "bfloat16")
      and (self.runs_on_gpu or device != "gpu")
    )

  @property
  def is_peer(self) -> bool:
    """Whether it measures another project."""
    return self.script.endswith(".py")


_JAX = ("jax", "keras"), "pip install jax keras absl-py"
TORCH = ("torch", "transformers"), "pip install torch transformers"
_KERAS_HUB = ("keras_hub", "tensorflow"), "pip install keras-hub tensorflow"
_MODEL_GARDEN = ("official", "tf_keras"), "pip install tf-models-official"
_ORIGINAL = (
  ("tensorflow", "tf_keras"),
  "pip install tensorflow tf_keras, and --original_dir=FOLDER, a copy of "
  "google-research/bert",
)

PROGRAMS = (
  Program("bert_tf, graph", _OURS, False),
  Program("bert_tf, pieces", _OURS, "pieces", runs_forward=False),
  Program("bert_tf, XLA", _OURS, True),
  Program("bert_tf, JAX", _OURS_ON_JAX, True, *_JAX, True, keras_backend="jax"),
  Program("PyTorch", _TORCH_STEPS, False, *TORCH, True),
  Program("PyTorch, compile", _TORCH_STEPS, True, *TORCH, True),
  Program("KerasHub, XLA", _KERAS_HUB_STEPS, True, *_KERAS_HUB),
  Program("Model Garden", _MODEL_GARDEN_STEPS, False, *_MODEL_GARDEN),
  Program("Model Garden, XLA", _MODEL_GARDEN_STEPS, True, *_MODEL_GARDEN),
  Program(
    "the original",
    _ORIGINAL_STEPS,
    False,
    *_ORIGINAL,
    runs_bfloat16=False,
    needs_original_dir=True,
  ),
)


@dataclasses.dataclass
class Result:
  """What the processes of a program reported, and why one failed."""

  rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  error: str = ""

  @property
  def medians(self) -> list[float]:
    """The median milliseconds of each round."""
    return [statistics.median(found["ms"]) for found in self.rounds]

  @property
  def median(self) -> float:
    """The median milliseconds of all steps."""
    return statistics.median(ms for found in self.rounds for ms in found["ms"])


def measure_training(config: BenchmarkConfig) -> None:
  """Prints a table of a pre-training step; as `measure`."""
  measure(config, "train")


def measure_forward(config: BenchmarkConfig) -> None:
  """Prints a table of the encoder's forward pass; as `measure`."""
  measure(config, "forward")


def measure(
  config: BenchmarkConfig, task: str, programs: Sequence[Program] = PROGRAMS
) -> None:
  """Prints a table of what a step takes, and draws it in `plot_file`.

  Raises:
    ValueError: at the end, if a program failed; one that is not installed is
      only named, at the start.
  """
  sizes = shared_sizes(config, task)
  pythons = {
    p: python_of(p, config)
    for p in programs
    if p.can_run(task, config.precision, config.device)
  }
  found = {p: python for p, python in pythons.items() if python}
  name_missing({p.name: p.install for p in pythons.keys() - found})
  results = {p: Result() for p in found}
  for number in range(config.num_rounds):
    # Back and forth, so that no one always follows the same other one.
    for program in list(results)[:: -1 if number % 2 else 1]:
      if not results[program].error:
        _run_round(program, found[program], sizes, results[program])
  _print_table(results, sizes)
  failed = [p.name for p, result in results.items() if result.error]
  done = {p: result for p, result in results.items() if not result.error}
  if config.plot_file and done:
    _plot(done, describe(sizes), config.plot_file)
  if failed:
    raise ValueError(f"failed: {'; '.join(failed)}.")


def shared_sizes(config: BenchmarkConfig, task: str) -> dict[str, Any]:
  """Returns the settings that all programs share.

  Raises:
    ValueError: if a setting names a file or folder that has not what it needs.
  """
  if config.original_dir:
    missing = _ORIGINAL_FILES.difference(os.listdir(config.original_dir))
    if missing:
      raise ValueError(
        f"original_dir={config.original_dir} lacks {sorted(missing)}; give a "
        "copy of google-research/bert."
      )
  model = dict(config_lib.TINY)
  if config.bert_config_file:
    found = json_files.read_object(config.bert_config_file)
    if missing := config_lib.TINY.keys() - found:
      raise ValueError(f"{config.bert_config_file} lacks {sorted(missing)}.")
    model = {name: found[name] for name in config_lib.TINY}
  return {
    "task": task,
    "precision": config.precision,
    "device": config.device,
    "batch_size": config.batch_size,
    "length": config.max_seq_length,
    "num_predictions": min(
      config.max_predictions_per_seq, config.max_seq_length
    ),
    "num_steps": config.num_steps,
    "original_dir": config.original_dir,
    **model,
  }


def name_missing(installs: Mapping[str, str]) -> None:
  """Prints which peers are missing, before the others are measured.

  `installs`, by name, say what installs them.
  """
  for name, install in sorted(installs.items()):
    print(f"{name}: not installed; {install}", flush=True)


def python_of(program: Program, config: BenchmarkConfig) -> str | None:
  """Returns the interpreter of a program; None if something is missing."""
  if program.needs_original_dir and not config.original_dir:
    return None
  return find_python(program.modules, config)


def find_python(modules: Sequence[str], config: BenchmarkConfig) -> str | None:
  """Returns the first interpreter that has the modules; none needed: this."""
  if not modules:
    return sys.executable
  code = "import sys; from importlib.util import find_spec as f; "
  code += "sys.exit(any(f(name) is None for name in sys.argv[1:]))"
  pythons = *config.peer_python.split(","), sys.executable
  for python in filter(None, pythons):
    if not subprocess.run([python, "-c", code, *modules]).returncode:
      return python
  return None


def _run_round(
  program: Program, python: str, sizes: Mapping[str, Any], result: Result
) -> None:
  """Runs a program once and adds what it reports to its result."""
  settings = json.dumps({**sizes, "compiled": program.compiled})
  done = subprocess.run(
    [python, *([] if program.is_peer else ["-m"]), program.script, settings],
    env=environment(not program.is_peer, program.keras_backend),
    capture_output=True,
    text=True,
  )
  if done.returncode:
    lines = done.stderr.split("\n")
    said = [line for line in lines if line.strip()] or ["nothing on stderr"]
    result.error = f"exit status {done.returncode}: {said[-1]}"
    return
  result.rounds.append(json.loads(done.stdout.splitlines()[-1]))


def environment(
  is_ours: bool, keras_backend: str = "tensorflow"
) -> dict[str, str]:
  """Returns the environment of a process."""
  found = {
    # PyTorch's threads wait for each other in loops: where other work holds a
    # core, a step takes three times as long so.
    "OMP_WAIT_POLICY": "passive",
    **os.environ,
    "KERAS_BACKEND": keras_backend,
  }
  if is_ours:  # It may be another interpreter than this one.
    folders = ROOT, os.environ.get("PYTHONPATH")
    found["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
  return found


def describe(sizes: Mapping[str, Any]) -> str:
  """Returns what is measured."""
  return (
    "{task}, L{num_hidden_layers} H{hidden_size}, {batch_size} x {length}, "
    "V {vocab_size:,}, P {num_predictions}, {precision}, {device}"
  ).format(**sizes)


def _flops(sizes: Mapping[str, Any]) -> float:
  """Returns the operations of a step's matrix products, without embeddings."""
  d, b, f = sizes["hidden_size"], sizes["batch_size"], sizes["length"]
  # Query, key, value and output; the feed-forward layers; scores and context.
  layer = 4 * d * d + 2 * d * sizes["intermediate_size"] + 2 * f * d
  encoder = 2 * b * f * layer * sizes["num_hidden_layers"] + 2 * b * d * d
  if sizes["task"] == "forward":
    return encoder
  num_masked = min(sizes["num_predictions"], round(0.15 * f))
  head = 2 * b * num_masked * d * (d + sizes["vocab_size"])
  # The gradients of a product are two products.
  return 3 * (encoder + head)


def _print_table(
  results: Mapping[Program, Result], sizes: Mapping[str, Any]
) -> None:
  """Prints a row for each program and the machine's rate below."""
  done = {p: result for p, result in results.items() if not result.error}
  rates = [r["product_gflops"] for x in done.values() for r in x.rounds]
  rate = max(rates, default=0.0)
  peers = [x.median for program, x in done.items() if program.is_peer]
  print(describe(sizes))
  print(
    f"{'':18}{'ms/step':>8}{'rounds':>16}{'CPU ms':>9}{'x peer':>8}"
    f"{'of peak':>9}{'peak MB':>9}  versions"
  )
  for program, x in results.items():
    if x.error:
      print(f"{program.name:18}failed, {x.error}")
      continue
    spread = f"{min(x.medians):.1f}-{max(x.medians):.1f}"
    cpu = statistics.median(found["cpu_ms"] for found in x.rounds)
    ratio = f"{min(peers) / x.median:.2f}" if peers else "-"
    used = _flops(sizes) / (x.median * 1e6 * rate)
    peak = max(found["peak_mb"] for found in x.rounds)
    print(
      f"{program.name:18}{x.median:8.1f}{spread:>16}{cpu:9.1f}{ratio:>8}"
      f"{used:9.1%}{peak:9,.0f}  {x.rounds[0]['version']}"
    )
  size = step_timing.PRODUCT_SIZES[sizes["device"]]
  print(
    f"x peer: times as fast as the fastest peer. of peak: of {rate:,.0f} "
    f"GFLOP/s, the best product of {size} x {size} that a process reached."
  )
  if hasattr(os, "getloadavg"):
    print(f"Load average of {os.cpu_count()} cores: {os.getloadavg()}")


def _plot(results: Mapping[Program, Result], title: str, path: str) -> None:
  """Draws medians as bars and those of the rounds as points."""
  with style.picture(path, width=900, panel_height=400) as (axis,):
    axis.set(title=title, xlabel="ms a step; points: medians of rounds")
    style.bars(
      axis,
      {program.name: result.median for program, result in results.items()},
      {program.name: result.medians for program, result in results.items()},
      [program.name for program in results if not program.is_peer],
    )
