"""Source of the fused attention kernels of bert_tf, in Triton.

Writes their intermediate text, which bert_tf reads without Triton:

    pip install triton==3.6.0
    python -m research.kernels.fused_attention bert_tf/kernels/triton

Sizes and constants become placeholders ($length) in the text. Triton's
interpreter runs the kernels on a CPU (TRITON_INTERPRET=1); the tests compare
them with NumPy this way if Triton is installed.

Queries, keys and values lie side by side, [B, T, 3, N, H]. Powers are of 2, so
`scale` is log2(e) / sqrt(H). Each program computes one block of rows of one
head of one example, which is called a pair here. `bias` is [B, T], added to the
scores of each key, or for PACKED kernels [B, T, T], of queries and keys, in 16
bits.
"""

import pathlib
import re
import sys

import triton
import triton.language as tl
from triton.backends import compiler as backends
from triton.compiler import ASTSource

# Sizes of blocks: the fastest of nine on an H200, forward and backward.
HEAD_SIZE, BLOCK_ROWS, BLOCK_COLUMNS = 64, 64, 64

_LOG2_E = tl.constexpr(1.4426950408889634)
_LN_2 = tl.constexpr(0.6931471805599453)

# Arguments that become constants of the text, with their types.
_CONSTANTS = {
  "length": "i32",
  "num_heads": "i32",
  "scale": "fp32",
  "least": "u32",
  "kept_scale": "fp32",
}
_POINTERS = {"bias": "*fp32", "keys": "*u32", "stats": "*fp32", "dots": "*fp32"}


@triton.jit
def _is_kept(keys, least, rows, columns, length):
  """Returns the mask of bert_tf.model.kernels.hashing at [rows, columns].

  Args:
    keys: pointer to the two keys of the draws.
    rows: indices of the query's row among those of all pairs.
    columns: indices of the key in its example.
  """
  key = tl.load(keys + 1)
  x = (rows * length + columns).to(tl.uint32) + tl.load(keys)
  x = (x ^ (x >> 16)) * tl.full([], 0x7FEB352D, tl.uint32)
  # The same as x ^= key, x ^= x >> 15, with one operation less for each weight.
  x = (x ^ (x >> 15)) ^ (key ^ (key >> 15))
  return x * tl.full([], 0x846CA68B, tl.uint32) >= least.to(tl.uint32)


@triton.jit
def _bias_of_pairs(bias, example, queries, keys, length):
  """Returns what packed rows add to the scores of queries and keys."""
  added = tl.load(bias + (example * length + queries) * length + keys)
  return added.to(tl.float32) * _LOG2_E


@triton.jit
def forward(
  qkv,
  bias,
  keys,
  out,
  stats,
  length,
  num_heads,
  scale,
  least,
  kept_scale,
  HEAD: tl.constexpr,
  ROWS: tl.constexpr,
  COLUMNS: tl.constexpr,
  PACKED: tl.constexpr,
):
  """Writes the context of ROWS queries, and log2 of their softmax's sums."""
  pair = tl.program_id(1)
  example, head = pair // num_heads, pair % num_heads
  size = num_heads * HEAD
  base = qkv + example * length * 3 * size + head * HEAD
  rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
  columns = tl.arange(0, COLUMNS)
  places = tl.arange(0, HEAD)
  query = tl.load(base + rows[:, None] * 3 * size + places[None, :])
  column_places = base + columns[:, None] * 3 * size + places[None, :]
  largest = tl.full([ROWS], -float("inf"), tl.float32)
  total = tl.zeros([ROWS], tl.float32)
  context = tl.zeros([ROWS, HEAD], tl.float32)
  for start in range(0, length, COLUMNS):
    key = tl.load(column_places + start * 3 * size + size)
    if PACKED:
      added = _bias_of_pairs(
        bias, example, rows[:, None], (start + columns)[None, :], length
      )
    else:
      added = tl.load(bias + example * length + start + columns) * _LOG2_E
      added = added[None, :]
    scores = tl.dot(query, tl.trans(key)) * scale + added
    new_largest = tl.maximum(largest, tl.max(scores, 1))
    weights = tl.exp2(scores - new_largest[:, None])
    shrink = tl.exp2(largest - new_largest)
    total = total * shrink + tl.sum(weights, 1)
    is_kept = _is_kept(
      keys,
      least,
      (pair * length + rows)[:, None],
      (start + columns)[None, :],
      length,
    )
    weights = tl.where(is_kept, weights, 0.0).to(query.dtype)
    value = tl.load(column_places + start * 3 * size + 2 * size)
    context = tl.dot(weights, value, context * shrink[:, None])
    largest = new_largest
  context = context * (kept_scale / total)[:, None]
  row = (example * length + rows) * size + head * HEAD
  tl.store(out + row[:, None] + places[None, :], context.to(query.dtype))
  tl.store(stats + pair * length + rows, largest + tl.log2(total))


@triton.jit
def backward(
  qkv,
  bias,
  keys,
  stats,
  dots,
  d_out,
  d_qkv,
  length,
  num_heads,
  scale,
  least,
  kept_scale,
  HEAD: tl.constexpr,
  ROWS: tl.constexpr,
  COLUMNS: tl.constexpr,
  PACKED: tl.constexpr,
):
  """Writes the gradients of ROWS keys and values, then of ROWS queries.

  Args:
    stats: from `forward`.
    dots: sum(weights * d_weights) of each query, which is dot(out, d_out).
  """
  pair = tl.program_id(1)
  example, head = pair // num_heads, pair % num_heads
  size = num_heads * HEAD
  base = qkv + example * length * 3 * size + head * HEAD
  d_base = d_qkv + example * length * 3 * size + head * HEAD
  d_out_base = d_out + example * length * size + head * HEAD
  rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
  columns = tl.arange(0, COLUMNS)
  places = tl.arange(0, HEAD)
  row_places = rows[:, None] * 3 * size + places[None, :]
  column_places = base + columns[:, None] * 3 * size + places[None, :]

  # The rows are keys, the columns are queries.
  row_key = tl.load(base + row_places + size)
  row_value = tl.load(base + row_places + 2 * size)
  if not PACKED:
    row_added = tl.load(bias + example * length + rows) * _LOG2_E
  d_key = tl.zeros([ROWS, HEAD], tl.float32)
  d_value = tl.zeros([ROWS, HEAD], tl.float32)
  for start in range(0, length, COLUMNS):
    query = tl.load(column_places + start * 3 * size)
    d_context = tl.load(
      d_out_base + (start + columns)[:, None] * size + places[None, :]
    )
    stat = tl.load(stats + pair * length + start + columns)
    dot = tl.load(dots + pair * length + start + columns)
    if PACKED:
      added = _bias_of_pairs(
        bias, example, (start + columns)[None, :], rows[:, None], length
      )
    else:
      added = row_added[:, None]
    scores = tl.dot(row_key, tl.trans(query)) * scale + added
    weights = tl.exp2(scores - stat[None, :])
    is_kept = _is_kept(
      keys,
      least,
      (pair * length + start + columns)[None, :],
      rows[:, None],
      length,
    )
    kept = tl.where(is_kept, weights, 0.0).to(query.dtype)
    d_value = tl.dot(kept, d_context, d_value)
    d_weights = tl.dot(row_value, tl.trans(d_context)) * kept_scale
    d_scores = weights * (tl.where(is_kept, d_weights, 0.0) - dot[None, :])
    d_key = tl.dot(d_scores.to(query.dtype), query, d_key)
  d_key = d_key * (scale * _LN_2)
  tl.store(d_base + row_places + size, d_key.to(row_key.dtype))
  d_value = d_value * kept_scale
  tl.store(d_base + row_places + 2 * size, d_value.to(row_key.dtype))

  # The rows are queries, the columns are keys.
  row_query = tl.load(base + row_places)
  row_d_context = tl.load(d_out_base + rows[:, None] * size + places[None, :])
  row_stat = tl.load(stats + pair * length + rows)
  row_dot = tl.load(dots + pair * length + rows)
  d_query = tl.zeros([ROWS, HEAD], tl.float32)
  for start in range(0, length, COLUMNS):
    key = tl.load(column_places + start * 3 * size + size)
    value = tl.load(column_places + start * 3 * size + 2 * size)
    if PACKED:
      added = _bias_of_pairs(
        bias, example, rows[:, None], (start + columns)[None, :], length
      )
    else:
      added = tl.load(bias + example * length + start + columns) * _LOG2_E
      added = added[None, :]
    scores = tl.dot(row_query, tl.trans(key)) * scale + added
    weights = tl.exp2(scores - row_stat[:, None])
    is_kept = _is_kept(
      keys,
      least,
      (pair * length + rows)[:, None],
      (start + columns)[None, :],
      length,
    )
    d_weights = tl.dot(row_d_context, tl.trans(value)) * kept_scale
    d_scores = weights * (tl.where(is_kept, d_weights, 0.0) - row_dot[:, None])
    d_query = tl.dot(d_scores.to(key.dtype), key, d_query)
  d_query = d_query * (scale * _LN_2)
  tl.store(d_base + row_places, d_query.to(row_query.dtype))


def text(kernel: triton.JITFunction, is_packed: bool) -> str:
  """Returns the intermediate text of a kernel, with placeholders."""
  sizes = {"HEAD": HEAD_SIZE, "ROWS": BLOCK_ROWS, "COLUMNS": BLOCK_COLUMNS}
  sizes["PACKED"] = is_packed
  types = {
    name: (_CONSTANTS | _POINTERS).get(name, "*bf16")
    for name in kernel.arg_names
  } | dict.fromkeys(sizes, "constexpr")
  if is_packed:
    types["bias"] = types["qkv"]
  # XLA aligns all arrays. Lengths are multiples of the blocks' sizes.
  aligned = {
    (i,): [["tt.divisibility", 16]]
    for i, (name, kind) in enumerate(types.items())
    if kind.startswith("*") or name == "length"
  }
  compiled = triton.compile(
    ASTSource(kernel, types, sizes, aligned),
    target=backends.GPUTarget("cuda", 90, 32),
  )
  return _with_placeholders(compiled.asm["ttir"])


def _with_placeholders(ttir: str) -> str:
  lines = [line for line in ttir.splitlines() if not line.startswith("#loc")]
  result = "\n".join(lines) + "\n"
  for location in (r'"[^"]*"\(#loc\d*\)', r"callsite\([^)]*\)", r"#?\w*"):
    result = re.sub(rf" loc\({location}\)", "", result)
  constants = ""
  for name, kind in _CONSTANTS.items():
    result = re.sub(rf", %{name}: \w+( {{[^}}]*}})?", "", result, count=1)
    kind = "f32" if kind == "fp32" else "i32"
    constants += f"    %{name} = arith.constant ${name} : {kind}\n"
  head = "attributes {noinline = false} {\n"
  result = result.replace(head, head + constants, 1)
  return result.replace("bf16", "$float")


if __name__ == "__main__":
  for function in (forward, backward):
    for kind in ("attention", "packed_attention"):
      name = f"{kind}_{function.__name__}.ttir"
      source = text(function, kind.startswith("packed"))
      (pathlib.Path(sys.argv[1]) / name).write_text(source)
