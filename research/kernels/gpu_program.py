r"""The kernels of a training step on an NVIDIA H200, without a GPU.

    pip install 'jax[cuda12]==0.8.2'
    python -m research.kernels.gpu_program bert_config.json 256 128

Compiles the bfloat16 step of bert_tf, for a batch size and a length, down to
the GPU's machine code with the XLA of JAX. Prints the memory, and the kernels
of each kind with the GB that they read and write, of which the card moves about
4 per ms. Products take longer than that, and on a card XLA first tries several
forms of each.
"""

import collections
import math
import os
import sys
from typing import Any
from unittest import mock

import tensorflow as tf

from bert_tf import modeling
from bert_tf.model.kernels import fused_attention
from bert_tf.training import compilation
from research.benchmarks import ours_steps
from research.benchmarks.peers import step_timing
from research.kernels import kernel_times

_CARD = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32
  shared_memory_per_block: 49152 shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448 threads_per_core_limit: 2048
  core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 4800000000000
  l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 150000000000 cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 }
device_description_str: "NVIDIA H200"
"""

# As bert_tf sets it; the other products, Triton's, need a GPU to choose sizes.
_XLA_FLAGS = "--xla_gpu_enable_cublaslt=true --xla_gpu_enable_triton_gemm=false"

# These start no kernel.
_NO_KERNELS = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")


def step_program(settings: step_timing.Settings) -> bytes:
  """The HloModuleProto of a training step, as on a machine with one GPU."""
  gpu = tf.config.LogicalDevice("GPU:0", "GPU")
  with (
    mock.patch.object(tf.config, "list_logical_devices", lambda *_: [gpu]),
    mock.patch.object(fused_attention, "_has_tensor_cores", lambda: True),
    mock.patch.object(fused_attention, "_PLATFORMS", ["CPU"]),
  ):
    runner, features = ours_steps.build_training(settings)
    runner.train_step.build(
      {n: tf.TensorSpec(t.shape, t.dtype) for n, t in features.items()},
      compilation.Mode.WHOLE,
    )
    step = runner.train_step._step
    return step.experimental_get_compiler_ir(features)("hlo_serialized")


def compile_for_card(program: bytes) -> tuple[Any, int]:
  """The HloModuleProto of the kernels, and the bytes of memory they need."""
  os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
  os.environ["JAX_PLATFORMS"] = "cpu,cuda"
  import jaxlib._jax
  from jax._src import compiler
  from jax._src.interpreters import mlir
  from jax.experimental import topologies
  from jaxlib.mlir import ir
  from tensorflow.compiler.xla.service import hlo_pb2

  module = hlo_pb2.HloModuleProto.FromString(program)
  for op in (op for c in module.computations for op in c.instructions):
    if op.opcode == "copy":  # JAX cannot read it. Of a type to itself:
      op.opcode = "convert"
  devices = topologies.get_topology_desc(
    "", "cuda", target_config=_CARD, topology="1x1x1"
  ).devices
  text = jaxlib._jax.mlir.hlo_to_stablehlo(module.SerializeToString())
  with mlir.make_ir_context():
    executable = devices[0].client.compile(
      ir.Module.parse(text),
      jaxlib._jax.DeviceList(tuple(devices)),
      compiler.get_compile_options(
        num_replicas=1, num_partitions=1, device_assignment=[[0]]
      ),
    )
  memory = executable.get_compiled_memory_stats()
  compiled = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
  return (
    hlo_pb2.HloModuleProto.FromString(compiled),
    memory.argument_size_in_bytes + memory.temp_size_in_bytes,
  )


def _num_bytes(shape: Any) -> int:
  from tensorflow.compiler.xla import xla_data_pb2

  kind = xla_data_pb2.PrimitiveType.Name(shape.element_type)
  if kind == "TUPLE":
    return sum(map(_num_bytes, shape.tuple_shapes))
  if kind == "S8":  # Scratch memory of a product.
    return 0
  bits = "".join(filter(str.isdigit, kind))
  return math.prod(shape.dimensions) * (int(bits) // 8 if bits else 1)


def main() -> None:
  """Prints the table of a batch size and a length."""
  path, batch_size, length = sys.argv[1:]
  os.environ["XLA_FLAGS"] = _XLA_FLAGS
  sizes = modeling.BertConfig.from_json_file(path).to_dict()
  program = step_program(
    step_timing.Settings(
      task="train",
      compiled=True,
      precision="bfloat16",
      device="cpu",
      batch_size=int(batch_size),
      length=int(length),
      # As create_pretraining_data.py masks, 15% of the word pieces.
      num_predictions=math.ceil(0.15 * int(length)),
      num_steps=1,
      **{name: sizes[name] for name in step_timing.SIZES},
    )
  )
  module, num_bytes = compile_for_card(program)
  (entry,) = (
    c for c in module.computations if c.id == module.entry_computation_id
  )
  shapes = {op.id: op.shape for op in entry.instructions}
  counts: collections.Counter[str] = collections.Counter()
  traffic: collections.Counter[str] = collections.Counter()
  for op in entry.instructions:
    if op.opcode not in _NO_KERNELS:
      kind = kernel_times.kind(kernel_times.label(op))
      counts[kind] += 1
      tensors = [op.shape, *(shapes[i] for i in op.operand_ids)]
      traffic[kind] += sum(map(_num_bytes, tensors))
  print(f"{num_bytes / 1e9:.1f} GB of memory")
  for kind in kernel_times.KINDS:
    print(f"{counts[kind]:6} kernels {traffic[kind] / 1e9:8.2f} GB  {kind}")
  print(f"{counts.total():6} kernels {traffic.total() / 1e9:8.2f} GB  all")


if __name__ == "__main__":
  main()
