"""The blockwise masked-LM loss matches the plain loss."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model import heads, losses
from bert_tf.model.kernels import masked_lm
from bert_tf.model.layers import mixed_precision
from tests.support import scale_run, short_products
from tests.support.plain_masked_lm import (
  D,
  V,
  all_weights,
  arguments,
  plain_sums,
)


def random_weights(rng, num_rows):
  return rng.choice([0.0, 0.0, 0.5, 1.0], num_rows)


def no_weights(rng, num_rows):
  return np.zeros(num_rows)


@pytest.mark.parametrize(
  ("training", "jit_compile", "has_static_shape"),
  [(True, False, True), (True, True, False), (False, False, False)],
)
@pytest.mark.parametrize(
  ("num_rows", "weights"),
  [
    (3, random_weights),
    (320, all_weights),
    (321, all_weights),
    (700, random_weights),
    (400, no_weights),
  ],
)
def test_sums_and_gradients_match_the_reference(
  num_rows, weights, has_static_shape, jit_compile, training
):
  args = arguments(num_rows, weights)

  @tf.function(jit_compile=jit_compile)
  def run(hidden, table, bias, ids, weights):
    with tf.GradientTape() as tape:
      tape.watch([hidden, table, bias])
      sums = masked_lm.sums(hidden, table, bias, ids, weights, training)
      loss = sums[0] / 7.0
    return sums, tape.gradient(loss, [hidden, table, bias])

  if not has_static_shape:
    specs = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in args]
    run = run.get_concrete_function(*specs)
  sums, gradients = run(*args)
  expected, expected_gradients = plain_sums(*args)
  np.testing.assert_allclose(sums, expected, rtol=1e-5)
  for result, of_plain in zip(gradients, expected_gradients, strict=True):
    np.testing.assert_allclose(result, of_plain / 7.0, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", short_products.NAMES)
def test_gradients_in_16_bits_are_near_those_in_float32(dtype):
  args = arguments(300, random_weights, dtype)
  with tf.GradientTape() as tape:
    tape.watch(args[:3])
    sums = masked_lm.sums(*args, training=True)
  expected, expected_gradients = plain_sums(*args)
  np.testing.assert_allclose(sums[0], expected[0], rtol=1e-2)
  # A tie goes to the first of the largest logits.
  logits = masked_lm.logits(*args[:3])
  hits = np.argmax(tf.cast(logits, tf.float32), -1) == args[3].numpy()
  assert sums[1] == hits @ args[4].numpy()
  gradients = tape.gradient(sums, args[:3])
  for result, of_plain in zip(gradients, expected_gradients, strict=True):
    error = np.abs(tf.cast(result, tf.float32) - of_plain).max()
    assert error < 2e-2 * np.abs(of_plain).max()


@pytest.mark.parametrize("dtype", ["float32", short_products.BFLOAT16])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_first_of_equal_largest_logits_is_the_prediction(
  jit_compile, dtype
):
  _, table, bias, _, weights = arguments(4, all_weights)
  bias = tf.zeros_like(bias)
  # The logits of the last row are of one sign, and their table ends with zeros.
  hidden = tf.cast(tf.one_hot([0, 0, 0, 1], D), dtype)
  table = tf.concat([tf.zeros([V, 1]), -abs(table[:, 1:])], 1)
  table = table * tf.cast(tf.range(V) < V - 3, tf.float32)[:, None]
  run = tf.function(masked_lm.sums, jit_compile=jit_compile)
  for ids, num_hits in (
    ([0, 1, V - 1, V - 3], 2),
    ([1, 2, 3, V - 2], 0),
    ([0, 0, 0, 0], 3),
  ):
    result = run(hidden, table, bias, tf.constant(ids), weights, False)
    assert result[1] == num_hits


def test_logits_far_apart_neither_overflow_nor_vanish():
  hidden, table, bias, ids, weights = arguments(4, all_weights)
  bias = tf.tensor_scatter_nd_update(bias, [[ids[0]]], [3e4])
  ids = tf.concat([ids[:1], ids[:1] + 1, ids[2:]], 0)
  result = masked_lm.sums(hidden, table, bias, ids, weights, training=False)
  np.testing.assert_allclose(result[0], 9e4, rtol=1e-3)
  result = masked_lm.sums(
    hidden[:1], table, bias, ids[:1], weights[:1], training=False
  )
  np.testing.assert_allclose(result, [0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("name", ["float32", short_products.BFLOAT16])
def test_weights_and_logits_are_not_rounded_on_the_way_to_the_loss(name):
  config = modeling.BertConfig.from_dict(scale_run.CONFIG)
  features = dict(next(scale_run.batches(0)))
  features["masked_lm_weights"] = features["masked_lm_weights"] * 0.3
  with mixed_precision.policy_scope(name):
    model = heads.PretrainingModel(config)
  result, expected = (
    losses.metrics_from_sums(sums, features)
    for sums in (
      model.loss_sums(features, training=False),
      losses.pretraining_sums(model(features), features),
    )
  )
  np.testing.assert_allclose(
    [pair for _, pair in sorted(result.items())],
    [pair for _, pair in sorted(expected.items())],
    rtol=1e-5,
  )
