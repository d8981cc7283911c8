"""One-directional models: attention, pooled output and file formats."""

import dataclasses

import keras
import numpy as np
import pytest

from bert_tf import modeling
from tests.support import packed_instances

SIDES = ("left_to_right", "right_to_left")
LENGTHS = (12, 7, 1)


def config(direction):
  return dataclasses.replace(
    packed_instances.CONFIG, attention_direction=direction
  )


def bert(direction):
  """Returns a BertModel with random weights, equal for all directions."""
  keras.utils.set_random_seed(1)
  return modeling.BertModel(config(direction))


def batch():
  """Returns inputs with LENGTHS, padded to 12 with tokens to ignore."""
  rng = np.random.default_rng(3)
  ids = rng.integers(5, 60, (len(LENGTHS), 12))
  mask = (np.arange(12) < np.array(LENGTHS)[:, None]).astype(int)
  return {
    "input_ids": ids,
    "input_mask": mask,
    "segment_ids": mask * (np.arange(12) > 4),
  }


@pytest.mark.parametrize("direction", SIDES)
def test_a_position_depends_on_one_side_only(direction):
  model, features = bert(direction), batch()
  output = model(features, return_attention_probs=True)
  # All positions of the first row are real.
  triangle = np.tri(12) if direction == "left_to_right" else np.tri(12).T
  for probs in output.attention_probs:
    np.testing.assert_array_equal(probs.numpy()[0] > 0, [triangle] * 2)
    np.testing.assert_allclose(probs.numpy()[0].sum(-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("direction", SIDES)
def test_the_pooled_output_is_at_the_position_that_sees_all(direction):
  model, features = bert(direction), batch()
  output = model(features)
  for b, length in enumerate(LENGTHS):
    place = length - 1 if direction == "left_to_right" else 0
    seen = output.sequence_output.numpy()[b, place]
    dense = model.pooler.dense
    pooled = np.tanh(seen @ dense.kernel.numpy() + dense.bias.numpy())
    np.testing.assert_allclose(output.pooled_output[b], pooled, atol=1e-5)
  assert output.pooled_output.shape == (3, 16)
