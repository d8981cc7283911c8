"""Attention as one GPU kernel: its wiring on a CPU, its numbers on a GPU."""

import importlib.util
import os
import pathlib
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model.kernels import backend, dropout_attention, fused_attention
from bert_tf.model.layers import dropout, mixed_precision

B, T, N, H = 2, 128, 3, 64
RATE = 0.1

_ROOT = pathlib.Path(__file__).parents[3]
has_gpu = bool(tf.config.list_physical_devices("GPU"))
needs_gpu = pytest.mark.skipif(not has_gpu, reason="no GPU")
needs_triton = pytest.mark.skipif(
  not importlib.util.find_spec("triton"), reason="triton is not installed"
)


def arguments(is_packed, length=T):
  rng = np.random.default_rng(1)
  qkv = tf.constant(rng.normal(size=(B, length, 3, N, H)), tf.bfloat16)
  is_ignored = np.arange(length) >= np.array([[[length]], [[length - 37]]])
  if is_packed:
    texts = np.arange(length) // np.array([[17], [50]])
    is_ignored = texts[:, None] != texts[:, :, None]
  return qkv, tf.constant(is_ignored * -10000.0, tf.float32)


def plain(qkv, bias, mask):
  """The same in the plain form."""
  query, key, value = (
    tf.transpose(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3)
  )
  if mask:
    context = dropout_attention.dropout_attention(query, key, value, bias, mask)
  else:
    probs = dropout_attention.attention_probs(query, key, bias)
    context = tf.matmul(tf.cast(probs, value.dtype), value)
  return tf.transpose(context, (0, 2, 1, 3))


@pytest.mark.parametrize(
  ("change", "expected"),
  [
    ({}, True),
    ({"dtype": "float16"}, True),
    ({"dtype": "float32"}, False),
    ({"shape": (B, 100, 3, N, H)}, False),
    ({"shape": (B, T, 3, N, 32)}, False),
    ({"shape": (None, T, 3, N, H)}, False),
    ({"shape": (B, None, 3, N, H)}, False),
    ({"shape": (2**15, T, 3, N, H)}, False),
    ({"bias": tf.zeros([B, T, T])}, True),  # Packed rows.
  ],
)
def test_shapes_and_types_of_the_kernels(change, expected):
  case = {"shape": (B, T, 3, N, H), "dtype": "bfloat16"} | change
  case.setdefault("bias", tf.zeros([B, 1, T]))
  with mock.patch.object(fused_attention, "_has_tensor_cores", lambda: True):
    assert not fused_attention.can_compute(**case)  # Not a program for GPUs.
    with backend.gpu_program():
      assert fused_attention.can_compute(**case) is expected


@pytest.mark.skipif(has_gpu, reason="checks the error of a machine without one")
@pytest.mark.parametrize("is_packed", [False, True])
def test_xla_reads_the_module_of_a_kernel(monkeypatch, is_packed):
  """Without a GPU, XLA reads all of the module and lacks only the compiler."""
  call = fused_attention.module_text
  texts = []

  def module_text(*args):
    texts.append(call(*args))
    return texts[-1]

  monkeypatch.setattr(fused_attention, "module_text", module_text)
  monkeypatch.setattr(fused_attention, "_PLATFORMS", ["CPU"])
  qkv, bias = arguments(is_packed)
  seeds = dropout.Seeds(5)

  @tf.function(jit_compile=True)
  def step():
    mask = seeds.draw_mask((B, N, T, T), RATE)
    with tf.GradientTape() as tape:
      tape.watch(qkv)
      loss = tf.reduce_sum(fused_attention.attention(qkv, bias, mask))
    return tape.gradient(loss, qkv)

  with pytest.raises(tf.errors.NotFoundError, match="xla.gpu.triton"):
    step()
  assert [name in text for name, text in zip(("forward", "backward"), texts)]
  assert not any("$length" in text for text in texts)


@pytest.mark.parametrize(
  "rate, is_packed", [(0.0, False), (RATE, False), (RATE, True)]
)
def test_the_model_gives_the_kernel_what_the_plain_form_gets(
  monkeypatch, rate, is_packed
):
  """Masks and projections are those of the plain form, with gradients."""
  config = modeling.BertConfig(
    vocab_size=30,
    hidden_size=2 * H,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    attention_probs_dropout_prob=rate,
    max_position_embeddings=T,
  )
  with mixed_precision.policy_scope("bfloat16"):
    model = modeling.BertModel(config)
  ids = np.random.default_rng(3).integers(30, size=(B, T))
  lengths = np.array([[T], [T - 9]])
  features = {"input_ids": ids, "input_mask": np.arange(T) < lengths}
  if is_packed:
    features["cls_positions"] = np.array([[0, 40], [0, 90]], "int32")
  calls = []

  def attention(qkv, bias, mask):
    calls.append(qkv.shape)
    return plain(qkv, bias, mask)

  monkeypatch.setattr(fused_attention, "_has_tensor_cores", lambda: True)
  monkeypatch.setattr(fused_attention, "attention", attention)

  @tf.function(jit_compile=True)
  def run(is_gpu_program):
    seeds = model.seed_generator.counted_from(tf.constant([1, 2]))
    scope = backend.gpu_program() if is_gpu_program else tf.name_scope("plain")
    with scope, seeds, tf.GradientTape() as tape:
      output = model(features, training=True).sequence_output
      loss = tf.reduce_sum(tf.cast(output[:, :, 0], tf.float32))
      gradients = tape.gradient(loss, model.encoder.trainable_variables)
    return output, gradients

  (output, gradients), (expected, expected_gradients) = run(True), run(False)
  assert calls == [(B, T, 3, 2, H)] * 2
  np.testing.assert_allclose(
    tf.cast(output, tf.float32), tf.cast(expected, tf.float32), atol=0.05
  )
  for gradient, other in zip(gradients, expected_gradients):
    size = max(1.0, float(tf.reduce_max(tf.abs(other))))
    np.testing.assert_allclose(gradient, other, atol=0.03 * size)


@needs_gpu
@pytest.mark.parametrize("rate", [0.0, RATE])
@pytest.mark.parametrize("length", [64, 128, 384])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_gpu_computes_the_plain_form(is_packed, length, rate):
  qkv, bias = arguments(is_packed, length)
  by = tf.random.stateless_normal([B, length, N, H], [1, 2])

  seeds = dropout.Seeds(5)

  def run(function, qkv):
    mask = None
    if rate:
      with seeds.counted_from(tf.constant([1, 2])):
        mask = seeds.draw_mask((B, N, length, length), rate)
    with tf.GradientTape() as tape:
      tape.watch(qkv)
      output = function(qkv, bias, mask)
      loss = tf.reduce_sum(tf.cast(output, tf.float32) * by)
    return output, tape.gradient(loss, qkv)

  fused = tf.function(run, jit_compile=True)(fused_attention.attention, qkv)
  exact = tf.function(run)(plain, tf.cast(qkv, tf.float32))
  for value, expected in zip(fused, exact):
    np.testing.assert_allclose(tf.cast(value, tf.float32), expected, atol=0.03)


@needs_triton
def test_the_texts_come_from_their_source(tmp_path):
  command = [sys.executable, "-m", "research.kernels.fused_attention", tmp_path]
  subprocess.run(command, check=True, cwd=_ROOT)
  folder = _ROOT / "bert_tf/model/kernels/triton"
  for path in tmp_path.iterdir():
    assert path.read_text() == (folder / path.name).read_text()


@needs_triton
@pytest.mark.parametrize("rate", [0.0, RATE])
@pytest.mark.parametrize("kind", ["padded", "packed"])
def test_the_source_computes_attention(rate, kind):
  """Triton's interpreter agrees with NumPy, gradients included."""
  command = [sys.executable, "-m", "tests.model.kernels.interpreted_attention"]
  environment = {**os.environ, "TRITON_INTERPRET": "1"}
  command += [str(rate), kind]
  subprocess.run(command, check=True, cwd=_ROOT, env=environment)
