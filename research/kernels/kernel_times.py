r"""Where the time of a training step goes, by kind of operation.

    STEP_PROFILE=FOLDER python -m research.benchmarks.ours_steps SETTINGS
    python -m research.kernels.kernel_times FOLDER

With STEP_PROFILE the programs of `benchmark.py train` profile three steps after
they have timed theirs: bert_tf writes TensorFlow's xplane.pb, which also holds
the compiled program, and transformers writes kernels.json. Prints ms per step
for each kind, and the longest operations that no kind matches. On a CPU without
GPUs it counts XLA's operations on all threads.
"""

import collections
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from research.benchmarks.peers import step_timing

# The first pattern that matches decides. A label is the name of a kernel and,
# in XLA, the opcode and the TensorFlow operation that it comes from.
_PATTERNS = {
  "fused attention": r"gpu\.triton|flash_|fmha|fused_attention",
  "products of the heads": r"(gemm|cublas| dot)\S* (gradient_tape/|masked_lm/)?"
  r"(transform|MatMul)",
  "products": r"gemm|cublas|nvjet|cutlass|xmma| dot ",
  "layer norm": r"LayerNorm|layer_norm",
  "attention, not fused": r"/self_?\d*/|softmax_dropout",
  "GELU": r"[Gg]elu|[Tt]anh|/intermediate| activations",
  "masked LM and next sentence": r"log_softmax|nll_loss|masked_lm|LogSoftmax|"
  r" (gradient_tape/)?(seq_rel|transform|Exp|Max|SelectV2)",
  "embeddings": r"embedding",
  "optimizer": r"[Aa]dam|multi_tensor|L2Loss| (Sum|sub|add|add_1|mul)(_\d+)?$",
  "dropout, residuals": r"dropout|/output_?\d*/",
  "casts and copies": r"copy|convert|transpose|concatenate|Mem(cpy|set)|MatMul",
}
KINDS = (*_PATTERNS, "other")
_NUM_SHOWN = 20


def label(op: Any) -> str:
  """Describes an HloInstructionProto for `kind`."""
  opcode = op.custom_call_target or op.opcode
  return f"{op.name} {opcode} {op.metadata.op_name}"


def kind(label: str) -> str:
  """The kind of an operation, one of KINDS."""
  matches = (k for k, pattern in _PATTERNS.items() if re.search(pattern, label))
  return next(matches, "other")


def _xla_operations(path: pathlib.Path) -> Iterator[tuple[str, float]]:
  """Yields labels and milliseconds of the operations in an xplane.pb."""
  from tensorflow.compiler.xla.service import hlo_pb2
  from tensorflow.tsl.profiler.protobuf import xplane_pb2

  space = xplane_pb2.XSpace()
  space.ParseFromString(path.read_bytes())
  labels: dict[tuple[str | None, str], str] = {}
  for plane in space.planes:
    for program in plane.event_metadata.values():
      for stat in program.stats:
        hlo = hlo_pb2.HloProto()
        if plane.name == "/host:metadata":
          hlo.ParseFromString(stat.bytes_value)
        module = hlo.hlo_module
        for op in (op for c in module.computations for op in c.instructions):
          # GPUs may name a module in another way.
          labels[module.name, op.name] = labels[None, op.name] = label(op)
  gpus = [plane for plane in space.planes if "device:GPU" in plane.name]
  for plane in gpus or space.planes:
    names = {key: stat.name for key, stat in plane.stat_metadata.items()}
    lines = (
      line
      for line in plane.lines
      # The others repeat the kernels, by module or step.
      if not gpus or line.name.startswith("Stream")
    )
    for event in (event for line in lines for event in line.events):
      stats = {
        names[stat.metadata_id]: names.get(stat.ref_value) or stat.str_value
        for stat in event.stats
      }
      if "hlo_op" in stats or (gpus and "kernel_details" in stats):
        name = plane.event_metadata[event.metadata_id].name
        op = stats.get("hlo_op", "")
        found = labels.get((stats.get("hlo_module"), op), "")
        found = found or labels.get((None, op), name)
        # These run other operations, which have events as well.
        if " call " not in found and " while " not in found:
          yield found, event.duration_ps / 1e9


def main() -> None:
  """Prints the table of a folder."""
  times: dict[str, float] = collections.defaultdict(float)
  folder = pathlib.Path(sys.argv[1])
  for path in folder.rglob("kernels.json"):
    times |= json.loads(path.read_text())
  for path in folder.rglob("*.xplane.pb"):
    for name, ms in _xla_operations(path):
      times[name] += ms / step_timing.NUM_PROFILED_STEPS
  kinds: dict[str, float] = collections.defaultdict(float)
  others: list[tuple[float, str]] = []
  for name, ms in times.items():
    kinds[kind(name)] += ms
    if kind(name) == "other":
      others.append((ms, name))
  for name in KINDS:
    print(f"{kinds[name]:9.2f} ms  {name}")
  print(f"{sum(times.values()):9.2f} ms  all {len(times)} operations")
  for ms, name in sorted(others, reverse=True)[:_NUM_SHOWN]:
    print(f"{ms:12.3f} ms  {name}")


if __name__ == "__main__":
  main()
