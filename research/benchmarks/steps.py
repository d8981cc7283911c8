"""Steps of bert_tf and of its peers, timed side by side on this machine.

Each program runs in its own process, once per round. This module imports no
TensorFlow, because the reported peak memory of a process is at least that of
the process that started it.
"""

import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf.files import json_files, plot_style
from research import run_plots
from research.benchmarks import config as config_lib
from research.benchmarks.config import BenchmarkConfig
from research.benchmarks.peers import step_timing

_FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = str(_FOLDER.parents[1])
PEERS = str(_FOLDER / "peers")


@dataclasses.dataclass(frozen=True)
class Program:
  """A program that times steps, and its requirements."""

  name: str
  script: str  # File of a peer, or module of bert_tf's own programs.
  compiled: bool | str  # See step_timing.Settings.
  # Required modules. If empty, the running interpreter is used.
  modules: tuple[str, ...] = ()
  install: str = ""  # Command that installs the modules.
  runs_on_gpu: bool = False
  runs_forward: bool = True
  runs_bfloat16: bool = True
  needs_original_dir: bool = False

  def can_run(self, task: str, precision: str, device: str) -> bool:
    """Whether the program supports the task, precision and device."""
    return (
      (self.runs_forward or task != "forward")
      and (self.runs_bfloat16 or precision != "bfloat16")
      and (self.runs_on_gpu or device != "gpu")
    )

  @property
  def is_peer(self) -> bool:
    """Whether the program measures another project."""
    return self.script.endswith(".py")


_OURS = "research.benchmarks.ours_steps"
_TORCH_STEPS = f"{PEERS}/torch_steps.py"
_KERAS_HUB_STEPS = f"{PEERS}/keras_hub_steps.py"
_GARDEN_STEPS = f"{PEERS}/model_garden_steps.py"
TORCH = ("torch", "transformers"), "pip install torch transformers"
_KERAS_HUB = ("keras_hub", "tensorflow"), "pip install keras-hub tensorflow"
_GARDEN = ("official", "tf_keras"), "pip install tf-models-official"

PROGRAMS = (
  Program("bert_tf, plain", _OURS, False, runs_on_gpu=True),
  Program("bert_tf, clustered", _OURS, "clustered", runs_forward=False),
  Program("bert_tf, whole", _OURS, True, runs_on_gpu=True),
  Program("PyTorch", _TORCH_STEPS, False, *TORCH, True),
  Program("PyTorch, compile", _TORCH_STEPS, True, *TORCH, True),
  Program("KerasHub, XLA", _KERAS_HUB_STEPS, True, *_KERAS_HUB),
  Program("Model Garden", _GARDEN_STEPS, False, *_GARDEN),
  Program("Model Garden, XLA", _GARDEN_STEPS, True, *_GARDEN),
  Program(
    "the original",
    f"{PEERS}/original_steps.py",
    False,
    ("tensorflow", "tf_keras"),
    "pip install tensorflow tf_keras, and set --original_dir to a checkout of "
    "google-research/bert",
    runs_bfloat16=False,
    needs_original_dir=True,
  ),
)


@dataclasses.dataclass
class Result:
  """Reports of a program, one per round, or the error that ended it."""

  rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
  error: str = ""

  @property
  def medians(self) -> list[float]:
    """The median milliseconds of each round."""
    return [statistics.median(report["ms"]) for report in self.rounds]

  @property
  def median(self) -> float:
    """The median milliseconds of all steps."""
    return statistics.median(ms for r in self.rounds for ms in r["ms"])


def measure(
  config: BenchmarkConfig, task: str, programs: Sequence[Program] = PROGRAMS
) -> None:
  """Prints the time per step of each program; draws it if `plot_file` is set.

  First names the programs that are not installed, and how to install them.
  """
  sizes = shared_sizes(config, task)
  pythons = {
    program: choose_python(program, config)
    for program in programs
    if program.can_run(task, config.precision, config.device)
  }
  name_missing({p.name: p.install for p in pythons if not pythons[p]})
  results = {p: Result() for p, python in pythons.items() if python}
  for program in in_turn(list(results), config.num_rounds):
    if not results[program].error:
      _run_round(program, str(pythons[program]), sizes, results[program])
  _print_table(results, sizes)
  succeeded = {p: result for p, result in results.items() if not result.error}
  if config.plot_file and succeeded:
    draw(succeeded, sizes, config.plot_file)
  if failed := [p.name for p in results if p not in succeeded]:
    raise ValueError(f"these programs failed: {'; '.join(failed)}.")


def in_turn(items: Sequence[Any], num_rounds: int) -> list[Any]:
  """Returns all items once per round, in reverse order in every second round.

  Thus no item always follows the same other item.
  """
  return [
    item
    for number in range(num_rounds)
    for item in (items[::-1] if number % 2 else items)
  ]


def shared_sizes(config: BenchmarkConfig, task: str) -> dict[str, Any]:
  """Returns the settings that all programs share."""
  model = config_lib.TINY
  if config.bert_config_file:
    model = json_files.read_object(config.bert_config_file)
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
    **{name: model[name] for name in config_lib.TINY},
  }


def name_missing(installs: Mapping[str, str]) -> None:
  """Prints the missing peers and the commands that install them."""
  for name, install in sorted(installs.items()):
    print(f"{name}: not installed; {install}", flush=True)


def choose_python(program: Program, config: BenchmarkConfig) -> str | None:
  """Returns the interpreter of a program; None if something is missing."""
  if program.needs_original_dir and not config.original_dir:
    return None
  return find_python(program.modules, config)


def find_python(modules: Sequence[str], config: BenchmarkConfig) -> str | None:
  """Returns the first interpreter with the modules; None if none has them."""
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
  """Runs a program once and adds its report to the result."""
  settings = json.dumps({**sizes, "compiled": program.compiled})
  process = subprocess.run(
    [python, *([] if program.is_peer else ["-m"]), program.script, settings],
    env=environment(not program.is_peer),
    capture_output=True,
    text=True,
  )
  if process.returncode:
    reason = last_line(process.stderr)
    result.error = f"exit status {process.returncode}: {reason}"
  else:
    result.rounds.append(json.loads(process.stdout.splitlines()[-1]))


def last_line(output: str) -> str:
  """Returns the last line of a process's output that is not empty."""
  lines = [line for line in output.split("\n") if line.strip()]
  return lines[-1] if lines else "it wrote nothing"


def environment(is_ours: bool) -> dict[str, str]:
  """Returns the environment variables of a program's process."""
  variables = {
    # PyTorch's threads spin while they wait. If other work holds a core, a step
    # then takes three times as long.
    "OMP_WAIT_POLICY": "passive",
    **os.environ,
    "KERAS_BACKEND": "tensorflow",
  }
  if is_ours:  # The process may use another interpreter than this one.
    folders = ROOT, os.environ.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
  return variables


def describe(sizes: Mapping[str, Any]) -> str:
  """Returns a title with the task, the sizes and the device."""
  return (
    "{task}, L{num_hidden_layers} H{hidden_size}, {batch_size} x {length}, "
    "V {vocab_size:,}, P {num_predictions}, {precision}, {device}"
  ).format(**sizes)


def _count_flops(sizes: Mapping[str, Any]) -> float:
  """Returns the number of floating-point operations of a step's products."""
  d, b, f = sizes["hidden_size"], sizes["batch_size"], sizes["length"]
  # Query, key, value and output; the feed-forward layers; scores and context.
  layer = 4 * d * d + 2 * d * sizes["intermediate_size"] + 2 * f * d
  encoder = 2 * b * f * layer * sizes["num_hidden_layers"] + 2 * b * d * d
  if sizes["task"] == "forward":
    return encoder
  num_masked = min(sizes["num_predictions"], round(0.15 * f))
  head = 2 * b * num_masked * d * (d + sizes["vocab_size"])
  # The gradient of a product takes two products.
  return 3 * (encoder + head)


def _print_table(
  results: Mapping[Program, Result], sizes: Mapping[str, Any]
) -> None:
  """Prints a row for each program, and the best rate of a matrix product."""
  reports = [report for x in results.values() for report in x.rounds]
  best_rate = max((r["product_gflops"] for r in reports), default=0.0)
  peers = [x.median for p, x in results.items() if p.is_peer and not x.error]
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
    cpu = statistics.median(report["cpu_ms"] for report in x.rounds)
    ratio = f"{min(peers) / x.median:.2f}" if peers else "-"
    share = _count_flops(sizes) / (x.median * 1e6 * best_rate)
    peak = max(report["peak_mb"] for report in x.rounds)
    print(
      f"{program.name:18}{x.median:8.1f}{spread:>16}{cpu:9.1f}{ratio:>8}"
      f"{share:9.1%}{peak:9,.0f}  {x.rounds[0]['version']}"
    )
  size = step_timing.PRODUCT_SIZES[sizes["device"]]
  print(
    "x peer: speed relative to the fastest peer. of peak: share of "
    f"{best_rate:,.0f} GFLOP/s, the best rate of a {size} x {size} product."
  )
  if hasattr(os, "getloadavg"):
    print(f"Load average of {os.cpu_count()} cores: {os.getloadavg()}")


def draw(
  results: Mapping[Program, Result], sizes: Mapping[str, Any], path: str
) -> None:
  """Draws the medians as bars and those of the rounds as points."""
  names = []
  title = (
    "BERT with {num_hidden_layers} layers of {hidden_size}, batches of "
    "{batch_size} x {length}, {precision}, {device}"
  ).format(**sizes)
  best: dict[bool, float] = {}  # Of the peers, and of bert_tf.
  for program, result in results.items():
    known = best.get(program.is_peer, math.inf)
    best[program.is_peer] = min(known, result.median)
  if len(best) == 2:
    what = "forward pass" if sizes["task"] == "forward" else "training step"
    title = (
      f"bert_tf takes {best[False]:,.0f} ms per {what}, the fastest peer "
      f"{best[True]:,.0f} ms\n{title}"
    )
  with plot_style.open_picture(path, width=900, panel_height=400) as (axis,):
    label = "ms per step (lower is better); points: medians of rounds"
    axis.set(title=title, xlabel=label)
    for place, (program, result) in enumerate(results.items()):
      color = run_plots.GRAY if program.is_peer else plot_style.COLORS[0]
      axis.barh(place, result.median, color=color)
      axis.plot(result.medians, [place] * len(result.medians), "k.")
      names.append(f"{program.name}: {result.median:,.0f}")
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
