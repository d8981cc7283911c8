"""A step is built for a GPU without one, with the forms of its kernels."""

import collections

from tensorflow.compiler.xla.service import hlo_pb2

from research.benchmarks.peers import step_timing
from research.kernels import gpu_program

NUM_LAYERS = 3


def test_the_step_has_the_forms_for_a_gpu():
  program = gpu_program.step_program(
    step_timing.Settings(
      task="train",
      compiled=True,
      precision="bfloat16",
      device="cpu",
      batch_size=2,
      length=64,
      num_predictions=4,
      num_steps=1,
      vocab_size=30,
      hidden_size=128,
      num_hidden_layers=NUM_LAYERS,
      num_attention_heads=2,
      intermediate_size=64,
    )
  )
  operations = collections.Counter(
    op.custom_call_target or op.opcode
    for computation in hlo_pb2.HloModuleProto.FromString(program).computations
    for op in computation.instructions
  )
  # Attention of all layers but the last, which computes few positions.
  assert operations["__gpu$xla.gpu.triton"] == 2 * (NUM_LAYERS - 1)
  # GELU in each layer and in the masked LM, and the squares of all gradients.
  assert operations["opt-barrier"] == NUM_LAYERS + 2
  assert not operations["while"]  # All masked words are one block.
