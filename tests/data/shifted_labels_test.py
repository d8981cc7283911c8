"""The labels of language models that read from one side, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import pretraining_records

CLS, SEP = 2, 3


def add(rows, is_reversed, cls_positions=None):
  """The positions and the pieces that are predicted, of each row."""
  rows = tf.constant(rows, tf.int32)
  features = {"input_ids": rows, "input_mask": tf.cast(rows > 0, tf.int32)}
  if cls_positions:
    features["cls_positions"] = tf.constant(cls_positions, tf.int32)
  add = tf.function(pretraining_records.add_shifted_labels)
  found = {n: v.numpy() for n, v in add(features, is_reversed).items()}
  np.testing.assert_array_equal(found["input_ids"], rows)
  is_label = found["masked_lm_weights"] == 1
  assert not found["masked_lm_positions"][~is_label].any()
  assert not found["masked_lm_ids"][~is_label].any()
  assert not found["masked_lm_weights"][~is_label].any()
  return [
    dict(zip(positions[has].tolist(), ids[has].tolist()))
    for positions, ids, has in zip(
      found["masked_lm_positions"], found["masked_lm_ids"], is_label
    )
  ]


@pytest.mark.parametrize(
  ("is_reversed", "expected"),
  [
    (False, {0: 11, 1: 12, 2: SEP, 3: 13, 4: SEP}),
    (True, {5: 13, 4: SEP, 3: 12, 2: 11, 1: CLS}),
  ],
)
def test_each_piece_is_predicted_by_the_one_that_is_read_before_it(
  is_reversed, expected
):
  row = [CLS, 11, 12, SEP, 13, SEP, 0, 0]
  assert add([row, [0] * 8], is_reversed) == [expected, {}]


@pytest.mark.parametrize(
  ("is_reversed", "expected"),
  [
    (False, {0: 11, 1: SEP, 3: 12, 4: SEP, 6: SEP}),
    (True, {2: 11, 1: CLS, 5: 12, 4: CLS, 7: CLS}),
  ],
)
def test_an_instance_predicts_nothing_of_its_neighbour_in_the_row(
  is_reversed, expected
):
  row = [CLS, 11, SEP, CLS, 12, SEP, CLS, SEP, 0, 0]
  assert add([row], is_reversed, [[0, 3, 6, 0]]) == [expected]


def test_a_full_row_predicts_up_to_its_end():
  assert add([[CLS, 11, SEP]], False) == [{0: 11, 1: SEP}]
