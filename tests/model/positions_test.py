"""What a position sees, and outputs that are computed at some positions only.

The models are bidirectional, or see the left or the right side.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from bert_tf.model import heads
from tests.support.packed_instances import (
  CONFIG,
  ROWS,
  batch,
  losses_and_gradients,
  make_instances,
)

DIRECTIONS = ("both", "left_to_right", "right_to_left")
B, F = 4, 12
LENGTHS = np.array([[12], [7], [12], [1]])
# Unsorted, and some repeat, as padded masked positions do.
POSITIONS = [[3, 0, 0, 11], [7, 2, 5, 5], [1, 9, 4, 0], [10, 3, 6, 8]]
CLS_POSITIONS = [[0, 5, 0], [0, 0, 0], [0, 4, 8], [0, 6, 9]]


def make_model(direction="both", model_class=modeling.BertModel):
  """Returns a model without dropout, whose random weights are always equal."""
  keras.utils.set_random_seed(1)
  return model_class(dataclasses.replace(CONFIG, attention_direction=direction))


def make_features(is_packed=False):
  """Returns inputs with LENGTHS, padded with tokens to ignore."""
  rng = np.random.default_rng(1)
  mask = np.ones((B, F), int) if is_packed else np.arange(F) < LENGTHS
  features = {
    "input_ids": rng.integers(1, CONFIG.vocab_size, (B, F)),
    "input_mask": mask,
    "segment_ids": rng.integers(0, 2, (B, F)),
  }
  if is_packed:
    features["cls_positions"] = np.array(CLS_POSITIONS)
  return {name: tf.constant(v, tf.int32) for name, v in features.items()}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_position_attends_to_its_side_and_is_pooled_where_all_is_seen(
  direction,
):
  model = make_model(direction)
  output = model(make_features(), return_attention_probs=True)
  sides = {"both": np.ones((F, F)), "left_to_right": np.tri(F)}
  is_seen = sides.get(direction, np.tri(F).T)
  dense = model.pooler.dense
  for b, [length] in enumerate(LENGTHS):
    expected = is_seen[:length] * (np.arange(F) < length)
    for probs in output.attention_probs:
      probs = probs.numpy()[b, :, :length]
      np.testing.assert_array_equal(probs > 0, [expected > 0] * 2)
      np.testing.assert_allclose(probs.sum(-1), 1.0, atol=1e-6)
    position = length - 1 if direction == "left_to_right" else 0
    hidden = output.sequence_output.numpy()[b, position]
    pooled = np.tanh(hidden @ dense.kernel.numpy() + dense.bias.numpy())
    np.testing.assert_allclose(output.pooled_output[b], pooled, atol=1e-5)
  assert model(make_features()).attention_probs == ()


def compute_gradients(model, features, positions):
  """Returns the outputs at POSITIONS, the pooled output and gradients."""
  rng = np.random.default_rng(2)

  def weighted(x):
    return tf.reduce_sum(x * tf.constant(rng.normal(size=x.shape), x.dtype))

  with tf.GradientTape() as tape:
    output = model(features, training=True, positions=positions)
    sequence = output.sequence_output
    if positions is None:
      sequence = tf.gather(sequence, POSITIONS, batch_dims=1)
    total = weighted(sequence) + weighted(output.pooled_output)
  gradients = tape.gradient(total, model.trainable_variables)
  return [sequence, output.pooled_output, *map(tf.convert_to_tensor, gradients)]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
  ("direction", "recompute"),
  [*((direction, False) for direction in DIRECTIONS), ("both", True)],
)
def test_outputs_and_gradients_are_those_of_all_positions(
  is_packed, direction, recompute
):
  model, features = make_model(direction), make_features(is_packed)
  model.encoder.recompute = recompute
  for value, expected in zip(
    compute_gradients(model, features, tf.constant(POSITIONS)),
    compute_gradients(model, features, None),
    strict=True,
  ):
    # Gradients reach 50; sums of float32 numbers in another order.
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-4)


def test_a_layer_costs_what_its_positions_cost():
  """The products of the last layer have as many rows as there are positions."""
  model, features = make_model(), make_features()

  @tf.function
  def run(positions):
    return model(features, positions=positions).pooled_output

  graph = run.get_concrete_function(tf.constant(POSITIONS)).graph
  rows = [
    operation.outputs[0].shape[0]
    for operation in graph.get_operations()
    if operation.type == "MatMul" and "/layer_1" in operation.name
  ]
  # Query, key and value of each position; the rest of the chosen positions.
  few = B * (1 + len(POSITIONS[0]))
  assert sorted(rows) == sorted([few, B * F, B * F, few, few, few])


@pytest.fixture(scope="module")
def batches():
  """A packed batch, and a batch with one instance in each row."""
  instances = make_instances()
  ends = np.cumsum([len(row) for row in ROWS])
  rows = [instances[end - len(row) : end] for row, end in zip(ROWS, ends)]
  return batch(rows, True), batch([[instance] for instance in instances], False)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_packed_rows_have_the_losses_and_gradients_of_separate_rows(
  direction, batches
):
  model = make_model(direction, heads.PretrainingModel)
  for variable in model.trainable_variables:
    # Untrained biases and norms would all be equal.
    if len(variable.shape) == 1:
      noise = np.random.default_rng(2).normal(size=variable.shape)
      variable.assign_add(0.3 * noise)
  for is_fused in (True, False):  # The second time compiled by XLA.
    (packed, packed_gradients), (alone, gradients) = (
      losses_and_gradients(model, features, is_fused, jit_compile=not is_fused)
      for features in batches
    )
    assert packed.pop("instances_per_row") == pytest.approx(11 / 5)
    assert packed == pytest.approx(alone, abs=1e-5)
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


def test_sizes_need_not_be_known_when_a_packed_row_is_traced():
  model, features = make_model(), make_features(is_packed=True)
  signature = {n: tf.TensorSpec([None, None], tf.int32) for n in features}
  traced = tf.function(model, input_signature=[signature])
  np.testing.assert_allclose(
    traced(features).pooled_output, model(features).pooled_output, atol=1e-6
  )
