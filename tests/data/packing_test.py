"""The model's input: special tokens, truncation, padding, packing."""

import hypothesis
import pytest
from hypothesis import strategies

from bert_tf.data import packing
from bert_tf.tasks import base


@hypothesis.given(
  strategies.integers(1, 20), strategies.integers(1, 20), strategies.integers(2)
)
def test_a_pair_is_cut_from_the_end_of_the_longer_one(num_a, num_b, max_length):
  cut_a, cut_b = packing.truncate_pair(range(num_a), range(num_b), max_length)
  a, b = list(range(num_a)), list(range(num_b))
  while len(a) + len(b) > max_length:  # run_classifier.py of 2018.
    (a if len(a) > len(b) else b).pop()
  assert (list(cut_a), list(cut_b)) == (a, b)


def test_inputs_have_special_tokens_and_padding():
  def build(ids_a, ids_b, length):
    row = base.model_input(*packing.assemble(ids_a, ids_b, 1, 2, length))
    return {n: list(a[0]) for n, a in base.batch([row], length).items()}

  assert build([5, 6], None, 6) == {
    "input_ids": [1, 5, 6, 2, 0, 0],
    "input_mask": [1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 0, 0, 0],
  }
  assert build([5, 6, 7], [8, 9], 7) == {
    "input_ids": [1, 5, 6, 2, 8, 9, 2],
    "input_mask": [1] * 7,
    "segment_ids": [0, 0, 0, 0, 1, 1, 1],
  }
  for nothing in (None, []):  # An empty second text counts as no text.
    assert build([5, 6, 7], nothing, 4)["input_ids"] == [1, 5, 6, 2]


@hypothesis.given(
  strategies.integers(8, 128).flatmap(
    lambda size: strategies.tuples(
      strategies.just(size), strategies.lists(strategies.integers(3, size))
    )
  )
)
def test_every_instance_is_in_one_row_and_no_row_is_too_long(sizes):
  max_seq_length, lengths = sizes
  rows = packing.assign_rows(lengths, max_seq_length)
  assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
  for row in rows:
    assert sum(lengths[i] for i in row) <= max_seq_length
    assert len(row) <= packing.max_instances(max_seq_length)


@pytest.mark.parametrize(
  ("lengths", "expected"),
  [
    ([128], [[0]]),
    ([100, 28, 29], [[0, 1], [2]]),  # 29 needs a new row; 28 fills the first.
    ([40, 60, 68, 88], [[3, 0], [2, 1]]),
    ([60, 60, 60], [[0, 1], [2]]),
    ([5] * 17, [list(range(16)), [16]]),
  ],
)
def test_the_longest_instance_goes_to_the_fullest_row_with_room(
  lengths, expected
):
  assert packing.assign_rows(lengths, 128) == expected
