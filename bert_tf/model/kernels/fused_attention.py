"""Attention with dropout as one kernel, for NVIDIA GPUs and types of 16 bits.

    probs = softmax(query @ key^T / sqrt(H) + bias)
    output = dropout(probs) @ value                      [B, T, N, H]

`dropout_attention` writes B * N * T^2 scores, probabilities and dropped
probabilities to memory, and reads them several times. Here blocks of queries
meet blocks of keys on the chip, and only two numbers for each query are written
besides the output (FlashAttention-2, Dao 2023, arXiv 2307.08691). The gradient
computes the probabilities again. It also draws the masks of `hashing`
again, bit for bit, so a resumed run still equals an uninterrupted one.

The kernels are written in Triton (research/kernels/fused_attention.py). XLA
contains Triton's compiler, therefore no other package is needed: the files
`triton/*.ttir` hold Triton's intermediate text, in which this module fills in
sizes and constants.

Shapes: B batch, T positions, N heads, H size per head.
"""

import functools
import importlib.resources
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

from bert_tf.model.kernels import backend, hashing
from bert_tf.model.tensor import Tensor

# Of the texts: the size of a head, and the number of rows of a block.
HEAD_SIZE = 64
BLOCK_ROWS = 64

_PLATFORMS = ["CUDA"]

_TYPES = dict(bfloat16="bf16", float16="f16", float32="f32", uint32="ui32")


def can_compute(shape: Sequence[int | None], dtype: str, bias: Tensor) -> bool:
  """Whether `attention` can compute queries, keys and values.

  Their shape is [B, T, 3, N, H], with None for unknown sizes. `bias` is float32
  [B, 1, T] or, for packed rows, [B, T, T].
  """
  batch_size, length, _, num_heads, head_size = (size or 0 for size in shape)
  num_pairs = batch_size * num_heads
  return (
    backend.in_gpu_program()
    and dtype in ("bfloat16", "float16")
    and length > 0
    and length % BLOCK_ROWS == 0
    and head_size == HEAD_SIZE
    and 0 < num_pairs < 2**16  # The most blocks of a grid's y axis.
    # Indices are int32.
    and num_pairs * length * 3 * HEAD_SIZE < 2**31
    and batch_size * length * bias.shape[1] < 2**31
    and _has_tensor_cores()
  )


def attention(qkv: Tensor, bias: Tensor, mask: hashing.Mask | None) -> Tensor:
  """The context of each query, float [B, T, N, H].

  XLA must compile the caller for a GPU; see `backend.gpu_program`.

  Args:
    qkv: float16 or bfloat16 [B, T, 3, N, H]. Queries, keys and values.
    bias: float32 [B, 1, T] or [B, T, T]. Added to the scores of all heads; not
      differentiated.
    mask: dropout mask of shape [B, N, T, T]; None for no dropout.
  """
  import tensorflow as tf
  from tensorflow.compiler.tf2xla.ops import gen_xla_ops

  batch_size, length, _, num_heads, _ = qkv.shape
  bias = tf.ensure_shape(bias, [batch_size, bias.shape[1], length])
  if bias.shape[1] > 1:
    bias = tf.cast(bias, qkv.dtype)  # Each head reads all of it.
  keys = mask.keys if mask else tf.zeros([2], tf.uint32)
  out = tf.TensorSpec([batch_size, length, num_heads, HEAD_SIZE], qkv.dtype)
  stats = tf.TensorSpec([batch_size, num_heads, length], tf.float32)

  def call(
    name: str, arguments: Sequence[Tensor], results: Sequence[Any]
  ) -> list[Tensor]:
    return gen_xla_ops.xla_call_module(
      args=arguments,
      version=9,  # It takes StableHLO as text.
      module=module_text(name, arguments, results, mask),
      Sout=[result.shape for result in results],
      Tout=[result.dtype for result in results],
      platforms=_PLATFORMS,
    )

  @tf.custom_gradient
  def forward(qkv: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    context, sums = call("forward", [qkv, bias, keys], [out, stats])

    def backward(d_context: Tensor) -> Tensor:
      # sum(probs * d_probs) of the softmax's gradient, as a shorter sum.
      dots = tf.cast(d_context, tf.float32) * tf.cast(context, tf.float32)
      dots = tf.transpose(tf.reduce_sum(dots, axis=-1), [0, 2, 1])
      arguments = [qkv, bias, keys, sums, dots, d_context]
      return call("backward", arguments, [tf.TensorSpec.from_tensor(qkv)])[0]

    return context, backward

  return forward(qkv)


def module_text(
  name: str,
  arguments: Sequence[Any],
  results: Sequence[Any],
  mask: hashing.Mask | None,
) -> str:
  """A StableHLO module whose main function calls a kernel.

  The kernel is "forward" or "backward". Its arguments, of which the first are
  `qkv` and `bias`, and its results give shapes and dtypes. Without a mask there
  is no dropout.
  """
  batch_size, length, _, num_heads, _ = arguments[0].shape
  form = "attention" if arguments[1].shape[1] == 1 else "packed_attention"
  folder = importlib.resources.files("bert_tf.model.kernels") / "triton"
  template = string.Template((folder / f"{form}_{name}.ttir").read_text())
  kernel = template.substitute(
    float=_TYPES[arguments[0].dtype.name],
    length=length,
    num_heads=num_heads,
    # Powers of 2 are faster than powers of e.
    scale=f"{HEAD_SIZE**-0.5 / math.log(2.0):.9e}",
    # The text has signed numbers.
    least=(mask.least + 2**31) % 2**32 - 2**31 if mask else 0,
    kept_scale=f"{mask.scale if mask else 1.0:.9e}",
  )
  kernel = kernel.replace('"', "\\22").replace("\n", "\\0A")
  inputs, outputs = (
    [
      f"tensor<{'x'.join(map(str, x.shape))}x{_TYPES[x.dtype.name]}>"
      for x in tensors
    ]
    for tensors in (arguments, results)
  )
  names = [f"%{i}" for i in range(len(inputs))]
  parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, inputs))
  returned = [f"%result#{i}" for i in range(len(outputs))]
  in_types, out_types = ", ".join(inputs), ", ".join(outputs)
  # Warps and stages are the fastest of nine settings on an H200.
  return f"""module {{
  func.func public @main({parameters}) -> ({out_types}) {{
    %result:{len(outputs)} = stablehlo.custom_call
        @"__gpu$xla.gpu.triton"({", ".join(names)}) {{
      api_version = 4 : i32,
      backend_config = {{
        name = "{name}", ir = "{kernel}", debug = false,
        num_warps = 4 : i32, num_stages = 2 : i32,
        grid_x = {length // BLOCK_ROWS} : i32,
        grid_y = {batch_size * num_heads} : i32, grid_z = 1 : i32
      }},
      operand_layouts = [{_layouts(arguments)}],
      result_layouts = [{_layouts(results)}]
    }} : ({in_types}) -> ({out_types})
    return {", ".join(returned)} : {out_types}
  }}
}}"""


def _layouts(tensors: Sequence[Any]) -> str:
  """The order of the axes in memory, the last axis first."""
  return ", ".join(
    f"dense<{[*reversed(range(rank))]}> : tensor<{rank}xindex>"
    for rank in (len(tensor.shape) for tensor in tensors)
  )


@functools.cache
def _has_tensor_cores() -> bool:
  import tensorflow as tf

  details = [
    tf.config.experimental.get_device_details(device)
    for device in tf.config.list_physical_devices("GPU")
  ]
  return tf.test.is_built_with_cuda() and all(
    detail.get("compute_capability", (0, 0)) >= (8, 0) for detail in details
  )
