"""Instances packed into a row give the results of separate rows."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.model import heads
from tests.support.packed_instances import (
  CONFIG,
  ROWS,
  batch,
  losses_and_gradients,
  make_instances,
)


@pytest.fixture(
  scope="module", params=["both", "left_to_right", "right_to_left"]
)
def model(request):
  keras.utils.set_random_seed(1)
  model = heads.PretrainingModel(
    dataclasses.replace(CONFIG, attention_direction=request.param)
  )
  for variable in model.trainable_variables:
    # Untrained biases and norms would all be equal.
    if len(variable.shape) == 1:
      noise = np.random.default_rng(2).normal(size=variable.shape)
      variable.assign_add(0.3 * noise)
  return model


@pytest.fixture(scope="module")
def batches():
  """A packed batch, and a batch with one instance in each row."""
  instances = make_instances()
  ends = np.cumsum([len(row) for row in ROWS])
  rows = [instances[end - len(row) : end] for row, end in zip(ROWS, ends)]
  return batch(rows, True), batch([[instance] for instance in instances], False)


@pytest.mark.parametrize(
  ("is_fused", "jit_compile"), [(True, False), (False, True)]
)
def test_losses_and_gradients_equal_those_of_separate_rows(
  model, batches, is_fused, jit_compile
):
  (packed, packed_gradients), (alone, gradients) = (
    losses_and_gradients(model, features, is_fused, jit_compile)
    for features in batches
  )
  assert packed.pop("instances_per_row") == pytest.approx(11 / 5)
  assert packed.keys() == alone.keys()
  for name, value in alone.items():
    assert packed[name] == pytest.approx(value, abs=1e-5), name
  for variable, gradient, expected in zip(
    model.trainable_variables, packed_gradients, gradients, strict=True
  ):
    # float32 sums in another order.
    np.testing.assert_allclose(
      gradient, expected, atol=1e-5, err_msg=variable.path
    )
    # A bias that all keys share does not change the softmax.
    if not variable.path.endswith("key/bias"):
      assert np.abs(expected).max() > 1e-4, variable.path


def test_sizes_need_not_be_known_when_a_row_is_traced(model, batches):
  features = {
    n: batches[0][n] for n in ("input_ids", "input_mask", "segment_ids")
  }
  features["cls_positions"] = batches[0]["cls_positions"]
  signature = {n: tf.TensorSpec([None, None], tf.int32) for n in features}
  traced = tf.function(model.bert, input_signature=[signature])
  np.testing.assert_allclose(
    traced(features).pooled_output,
    model.bert(features).pooled_output,
    atol=1e-6,
  )
