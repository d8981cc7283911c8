"""Runs the Triton source of fused attention on a CPU; needs PyTorch."""

import math
import sys

import torch

from research.kernels import fused_attention

B, T, N, H = 2, 128, 3, 64
KEYS = (123456789, 987654321)


def is_kept(least):
  """The mask of bert_tf.model.kernels.hashing, bool [B, N, T, T]."""
  bits = 2**32 - 1
  x = torch.arange(B * N * T * T) + KEYS[0] & bits
  x = (x ^ (x >> 16)) * 0x7FEB352D & bits ^ KEYS[1]
  x = (x ^ (x >> 15)) * 0x846CA68B & bits
  return (x >= least).reshape(B, N, T, T)


def main(rate, is_packed):
  generator = torch.Generator().manual_seed(0)
  qkv = torch.randn(B, T, 3, N, H, generator=generator, requires_grad=True)
  lengths = torch.tensor([[T], [T - 37]])
  is_seen = (torch.arange(T) < lengths)[:, None]
  if is_packed:
    texts = torch.arange(T) // torch.tensor([[17], [50]])
    is_seen = texts[:, None] == texts[:, :, None]
  bias = torch.where(is_seen, 0.0, -10000.0).contiguous()
  keys = torch.tensor(KEYS).to(torch.uint32)
  least, kept_scale = round(rate * 2**32), 1 / (1 - rate)
  constants = (T, N, H**-0.5 / math.log(2), least, kept_scale)
  constants += (H, 64, 64, is_packed)

  query, key, value = qkv.unbind(2)
  scores = torch.einsum("btnh,bsnh->bnts", query, key) * H**-0.5
  probs = torch.softmax(scores + bias[:, None], -1)
  probs = probs * is_kept(least) * kept_scale
  expected = torch.einsum("bnts,bsnh->btnh", probs, value)
  d_out = torch.randn(expected.shape, generator=generator)
  expected.backward(d_out)

  inputs, grid = qkv.detach(), (T // 64, B * N)
  out, stats = torch.zeros(B, T, N, H), torch.zeros(B, N, T)
  fused_attention.forward[grid](inputs, bias, keys, out, stats, *constants)
  torch.testing.assert_close(out, expected.detach(), atol=1e-5, rtol=0)
  dots = (d_out * out).sum(-1).permute(0, 2, 1).contiguous()
  d_qkv = torch.zeros_like(inputs)
  fused_attention.backward[grid](
    inputs, bias, keys, stats, dots, d_out, d_qkv, *constants
  )
  torch.testing.assert_close(d_qkv, qkv.grad, atol=1e-5, rtol=0)


if __name__ == "__main__":
  main(float(sys.argv[1]), sys.argv[2] == "packed")
