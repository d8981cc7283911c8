"""The last layer computed at a few positions equals the whole layer there."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import modeling
from tests.support import tiny_models

B, F = 4, 12
# Dropout of the last layer would depend on the positions.
CONFIG = dataclasses.replace(
  tiny_models.CONFIG,
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
)
# Unsorted, and some repeat, as padded masked positions do.
POSITIONS = [[3, 0, 0, 11], [7, 2, 5, 5], [1, 9, 4, 0], [10, 3, 6, 8]]
CLS_POSITIONS = [[0, 5, 0], [0, 0, 0], [0, 4, 8], [0, 6, 9]]


def batch(is_packed):
  rng = np.random.default_rng(1)
  features = {
    "input_ids": rng.integers(1, 500, (B, F)),
    "input_mask": (np.arange(F) < np.array([[12], [7], [12], [1]])).astype(int),
    "segment_ids": rng.integers(0, 2, (B, F)),
  }
  if is_packed:
    features["input_mask"][:] = 1
    features["cls_positions"] = np.array(CLS_POSITIONS)
  return {k: tf.constant(v.astype(np.int32)) for k, v in features.items()}


def compute_gradients(model, features, positions):
  """Computes the outputs at POSITIONS, the pooled output and gradients."""
  rng = np.random.default_rng(2)

  def weighted(x):
    return tf.reduce_sum(x * tf.constant(rng.normal(size=x.shape), x.dtype))

  seeds = model.seed_generator
  first = tf.constant([5, 6, 7], seeds.state.dtype)
  with seeds.counted_from(first):
    with tf.GradientTape() as tape:
      output = model(features, training=True, positions=positions)
      sequence = output.sequence_output
      if positions is None:
        sequence = tf.gather(sequence, POSITIONS, batch_dims=1)
      total = weighted(sequence) + weighted(output.pooled_output)
    gradients = tape.gradient(total, model.trainable_variables)
  return (sequence, output.pooled_output), [
    tf.convert_to_tensor(gradient) for gradient in gradients
  ]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
  ("direction", "recompute"),
  [
    ("both", False),
    ("both", True),
    ("left_to_right", False),
    ("right_to_left", False),
  ],
)
def test_outputs_and_gradients_are_those_of_all_positions(
  is_packed, direction, recompute
):
  keras.utils.set_random_seed(1)
  model = modeling.BertModel(
    dataclasses.replace(CONFIG, attention_direction=direction)
  )
  model.encoder.recompute = recompute
  features = batch(is_packed)
  all_positions = compute_gradients(model, features, None)
  at_positions = compute_gradients(model, features, tf.constant(POSITIONS))
  for value, expected in zip(
    tf.nest.flatten(at_positions), tf.nest.flatten(all_positions)
  ):
    # Gradients reach 50; sums of float32 numbers in another order.
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-4)


def test_attention_weights_are_of_the_positions_after_the_pooled_one():
  model = modeling.BertModel(tiny_models.CONFIG)
  features = batch(False)
  all_probs = model(features, return_attention_probs=True).attention_probs
  result = model(
    features, return_attention_probs=True, positions=tf.constant(POSITIONS)
  ).attention_probs
  np.testing.assert_allclose(result[0], all_probs[0], atol=1e-6)
  chosen = [[0, *row] for row in POSITIONS]
  expected = tf.gather(
    tf.transpose(all_probs[1], (0, 2, 1, 3)), chosen, batch_dims=1
  )
  np.testing.assert_allclose(
    result[1], tf.transpose(expected, (0, 2, 1, 3)), atol=1e-6
  )


def test_a_layer_costs_what_its_positions_cost():
  """The products of the last layer have as many rows as there are positions."""
  model = modeling.BertModel(tiny_models.CONFIG)
  features = batch(False)

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
