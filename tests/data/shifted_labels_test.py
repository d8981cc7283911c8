"""Labels of left-to-right and right-to-left language models, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import pretraining_records

CLS, SEP = 2, 3


def add_labels(rows, is_reversed, cls_positions=None):
  """Returns the label of each predicting position, for each row."""
  rows = tf.constant(rows, tf.int32)
  features = {"input_ids": rows, "input_mask": tf.cast(rows > 0, tf.int32)}
  if cls_positions:
    features["cls_positions"] = tf.constant(cls_positions, tf.int32)
  add = tf.function(pretraining_records.add_shifted_labels)
  batch = {n: v.numpy() for n, v in add(features, is_reversed).items()}
  np.testing.assert_array_equal(batch["input_ids"], rows)
  is_label = batch["masked_lm_weights"] == 1
  for name in ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"):
    assert not batch[name][~is_label].any()
  return [
    dict(zip(positions[has].tolist(), ids[has].tolist()))
    for positions, ids, has in zip(
      batch["masked_lm_positions"], batch["masked_lm_ids"], is_label
    )
  ]


@pytest.mark.parametrize(
  ("is_reversed", "expected"),
  [
    (False, {0: 11, 1: 12, 2: SEP, 3: 13, 4: SEP}),
    (True, {5: 13, 4: SEP, 3: 12, 2: 11, 1: CLS}),
  ],
)
def test_each_piece_is_predicted_at_the_position_read_before_it(
  is_reversed, expected
):
  row = [CLS, 11, 12, SEP, 13, SEP, 0, 0]
  assert add_labels([row, [0] * 8], is_reversed) == [expected, {}]


@pytest.mark.parametrize(
  ("is_reversed", "expected"),
  [
    (False, {0: 11, 1: SEP, 3: 12, 4: SEP, 6: SEP}),
    (True, {2: 11, 1: CLS, 5: 12, 4: CLS, 7: CLS}),
  ],
)
def test_an_instance_does_not_predict_its_neighbour_in_the_row(
  is_reversed, expected
):
  row = [CLS, 11, SEP, CLS, 12, SEP, CLS, SEP, 0, 0]
  assert add_labels([row], is_reversed, [[0, 3, 6, 0]]) == [expected]


def test_a_full_row_predicts_up_to_its_end():
  assert add_labels([[CLS, 11, SEP]], False) == [{0: 11, 1: SEP}]
